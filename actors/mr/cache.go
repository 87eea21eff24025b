package mr

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
)

// Cache registers plain memory, which no region of the application's holds, for the
// operations whose buffer it is. What it registered for accesses of this side alone it keeps
// for the next operation with the same memory; what others may read ends with the operation.
//
// A registration that is kept holds its slice: what lies at its addresses stays the same
// object. That is so in the Go heap alone, so other memory (mmap) is never kept.
//
// Any goroutine may call its methods. Hold takes no lock and allocates nothing for memory
// that is registered.
type Cache struct {
	cfg CacheConfig

	regions Table // the registrations that are kept; no peer's request is looked up here
	now     atomic.Uint64
	stats   cacheStats

	mu     sync.Mutex
	kept   []*Region // in the order of their registration
	spare  []*Region // were for one operation, and are to be others
	bytes  int64     // of kept
	pause  int       // attempts until the device is asked again
	closed bool
}

// CacheConfig says what a cache keeps, and how it registers.
type CacheConfig struct {
	Entries int   // registrations at most; 0: none are kept
	Bytes   int64 // of all of them together, at most
	// Stays reports whether nothing else comes to the addresses of memory as long as there is
	// a slice of it.
	Stays func(mem []byte) bool
	// Register is the device's.
	Register func(mem []byte, a device.Access) (device.MR, error)
}

// CacheStats counts what a cache did.
type CacheStats struct {
	Hits    uint64 // memory that was registered
	Misses  uint64 // memory that was not, and has been
	Lent    uint64 // registrations that others might read
	Refused uint64 // by the device, or not tried since it had refused lately
	Dropped uint64 // registrations that made room for others
	Entries uint64 // now
	Bytes   uint64 // now
}

type cacheStats struct{ hits, misses, lent, refused, dropped atomic.Uint64 }

// maxSpare is how many regions are left for later operations at most.
const maxSpare = 64

// maxPause is how many attempts are left out after the device had no memory left.
const maxPause = 256

// NewCache makes an empty cache.
func NewCache(c CacheConfig) *Cache { return &Cache{cfg: c} }

// Stats returns the counts.
func (c *Cache) Stats() CacheStats {
	s := CacheStats{
		Hits: c.stats.hits.Load(), Misses: c.stats.misses.Load(), Lent: c.stats.lent.Load(),
		Refused: c.stats.refused.Load(), Dropped: c.stats.dropped.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Entries, s.Bytes = uint64(len(c.kept)), uint64(c.bytes)
	return s
}

// Hold returns a registration of plain memory for requests of this side, which a names: 0 or
// device.LocalWrite. It is in use until the caller's Done; p stays as it is until then. It is
// nil if the device refuses.
func (c *Cache) Hold(p []byte, a Access) *Region {
	if r := c.regions.Find(p); r != nil && r.Use() {
		r.used.Store(c.now.Add(1))
		c.stats.hits.Add(1)
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cfg.Entries == 0 || int64(len(p)) > c.cfg.Bytes || !c.cfg.Stays(p) {
		return c.once(p, a, &c.stats.misses)
	}
	a = device.LocalWrite // it can be written to
	dev := c.register(p, a, nil)
	if dev == nil {
		return nil
	}
	c.stats.misses.Add(1)
	if !c.makeRoom(int64(len(p))) {
		return c.begin(newRegion(&c.regions, dev, a))
	}
	r := c.regions.Add(dev, a)
	r.closes = true
	r.used.Store(c.now.Add(1))
	r.Use()
	c.kept, c.bytes = append(c.kept, r), c.bytes+int64(len(p))
	return r
}

// Lend returns a registration of p, and of nothing else, that others may read. It is in use
// until the caller's Done, with which it ends. It is nil if the device refuses.
func (c *Cache) Lend(p []byte) *Region {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.once(p, device.RemoteRead, &c.stats.lent)
}

// once registers memory for one operation, and counts that. It is nil if the device refuses.
func (c *Cache) once(p []byte, a Access, count *atomic.Uint64) *Region {
	var r *Region
	var was device.Renewer
	if n := len(c.spare); n > 0 {
		r = c.spare[n-1]
		was = r.dev.(device.Renewer)
	}
	dev := c.register(p, a, was)
	if dev == nil {
		return nil
	}
	count.Add(1)
	if r == nil {
		return c.begin(newRegion(&c.regions, dev, a))
	}
	c.spare = c.spare[:len(c.spare)-1]
	r.state.Store(0)
	r.set(dev, a)
	return c.begin(r)
}

// begin begins the only use of a region, with which it ends.
func (c *Cache) begin(r *Region) *Region {
	r.closes, r.lender = true, c
	r.Use()
	r.state.Or(retired)
	return r
}

// takeBack keeps a region whose only use is over and that the device has closed: the next
// operation may have it, as no table ever listed it and so nobody can come upon it.
func (c *Cache) takeBack(r *Region) {
	dev, ok := r.dev.(device.Renewer)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.spare) == maxSpare {
		return
	}
	dev.Clear()
	r.mem = nil
	c.spare = append(c.spare, r)
}

// closeQuietly reports whether the driver could take the memory from its device; otherwise it
// keeps it itself.
func closeQuietly(dev device.MR) bool { return device.Guard(dev.Close) == nil }

// register asks the device. If it has no memory left, others give theirs up, and if it has none
// still, it is left alone for a while. The registration is the one that was, renewed, if that is
// not nil.
func (c *Cache) register(p []byte, a Access, was device.Renewer) (mr device.MR) {
	if c.closed || c.pause > 0 {
		c.pause = max(0, c.pause-1)
		c.stats.refused.Add(1)
		return nil
	}
	for {
		err := device.Guard(func() (err error) {
			if was != nil {
				mr = was
				return was.Renew(p, a)
			}
			mr, err = c.cfg.Register(p, a)
			return err
		})
		if err == nil {
			return mr
		}
		if !errors.Is(err, device.ErrNoMemory) || !c.dropAll() {
			if errors.Is(err, device.ErrNoMemory) {
				c.pause = maxPause
			}
			c.stats.refused.Add(1)
			return nil
		}
	}
}

// makeRoom drops registrations until there is room for one of n bytes, those first that were
// used longest ago. False: those that are in use leave none.
func (c *Cache) makeRoom(n int64) bool {
	for len(c.kept) >= c.cfg.Entries || c.bytes+n > c.cfg.Bytes {
		oldest := -1
		for i, r := range c.kept {
			if r.Users() == 0 && (oldest < 0 || r.used.Load() < c.kept[oldest].used.Load()) {
				oldest = i
			}
		}
		if oldest < 0 {
			return false
		}
		c.drop(c.kept[oldest])
		c.kept = slices.Delete(c.kept, oldest, oldest+1)
	}
	return true
}

// drop ends a registration, when nobody uses it any more.
func (c *Cache) drop(r *Region) {
	c.bytes -= int64(len(r.Bytes()))
	c.stats.dropped.Add(1)
	r.Retire()
}

// dropAll drops all that nobody uses, and reports whether there was one.
func (c *Cache) dropAll() bool {
	n := len(c.kept)
	c.kept = slices.DeleteFunc(c.kept, func(r *Region) bool {
		if r.Users() > 0 {
			return false
		}
		c.drop(r)
		return true
	})
	return len(c.kept) < n
}

// Drop gives up all registrations that nobody uses, since others want what memory the device
// takes, and reports whether there was one.
func (c *Cache) Drop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pause = 0
	return c.dropAll()
}

// Close ends all registrations. No operation is in progress any more.
func (c *Cache) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, r := range c.kept {
		c.drop(r)
	}
	c.kept, c.spare = nil, nil
}
