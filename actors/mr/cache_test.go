package mr

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/sys"
)

// registrar is a device that registers so many bytes at a time.
type registrar struct {
	sync.Mutex
	most, bytes int
	keys        uint64
	open        map[*registered]device.Access
	err         error
}

type registered struct {
	fakeMR
	by *registrar
}

func (r *registrar) register(mem []byte, a device.Access) (device.MR, error) {
	r.Lock()
	defer r.Unlock()
	if r.err != nil {
		return nil, r.err
	}
	if r.most > 0 && r.bytes+len(mem) > r.most {
		return nil, fmt.Errorf("%w: %d bytes", device.ErrNoMemory, len(mem))
	}
	r.bytes += len(mem)
	r.keys++
	m := &registered{fakeMR{mem: mem, addr: uint64(base(mem)), key: r.keys}, r}
	if r.open == nil {
		r.open = make(map[*registered]device.Access)
	}
	r.open[m] = a
	return m, nil
}

func (m *registered) Close() error {
	m.by.Lock()
	defer m.by.Unlock()
	m.by.bytes -= len(m.mem)
	delete(m.by.open, m)
	return nil
}

func newCache(r *registrar, entries int, bytes int64) *Cache {
	return NewCache(CacheConfig{Entries: entries, Bytes: bytes, Register: r.register, Stays: sys.InGoHeap})
}

// TestCache: what was registered is found again, with all that lies in it, and the one that
// was not used for longest makes room.
func TestCache(t *testing.T) {
	var dev registrar
	c := newCache(&dev, 2, 1000)
	a, b, d := make([]byte, 400), make([]byte, 400), make([]byte, 400)
	ra := c.Hold(a, 0)
	require.Same(t, ra, c.Hold(a[100:200], device.LocalWrite))
	ra.Done()
	ra.Done()
	rb := c.Hold(b, 0)
	rb.Done()
	c.Hold(a, 0).Done()
	rd := c.Hold(d, 0) // b goes
	require.Len(t, dev.open, 2)
	require.NotContains(t, dev.open, rb.Device())
	require.Equal(t, CacheStats{Hits: 2, Misses: 3, Dropped: 1, Entries: 2, Bytes: 800}, c.Stats())
	rd.Done()

	large := make([]byte, 2000)
	r := c.Hold(large, 0) // beyond the limit: for this once
	require.Equal(t, device.Access(0), dev.open[r.Device().(*registered)])
	r.Done()
	require.Len(t, dev.open, 2)

	ra, rd = c.Hold(a, 0), c.Hold(d, 0)
	r = c.Hold(b, device.LocalWrite) // the others are in use
	require.Len(t, dev.open, 3)
	r.Done()
	require.Len(t, dev.open, 2)
	ra.Done()
	c.Close()
	require.Len(t, dev.open, 1, "one is in use")
	rd.Done()
	require.Empty(t, dev.open)
	require.Nil(t, c.Hold(a, 0))
	require.Nil(t, c.Lend(a))
}

// TestLend: what others may read is the message, for as long as it is under way.
func TestLend(t *testing.T) {
	var dev registrar
	c := newCache(&dev, 10, 1<<20)
	mem := make([]byte, 1000)
	c.Hold(mem, 0).Done()
	r := c.Lend(mem[100:300])
	require.Len(t, r.Bytes(), 200)
	require.Equal(t, device.RemoteRead, dev.open[r.Device().(*registered)])
	again := c.Lend(mem[100:300])
	require.NotEqual(t, r.Key(0), again.Key(0))
	require.False(t, r.Use(), "it is for one operation")
	r.Done()
	again.Done()
	require.Len(t, dev.open, 1)
	for _, a := range dev.open {
		require.Equal(t, device.LocalWrite, a)
	}
	c.Close()
}

// TestCacheRefused: a device without memory gets back what nobody uses, and is left alone for
// a while if that does not help.
func TestCacheRefused(t *testing.T) {
	dev := registrar{most: 1000}
	c := newCache(&dev, 10, 1<<20)
	bufs := [3][]byte{make([]byte, 600), make([]byte, 600), make([]byte, 600)}
	c.Hold(bufs[0], 0).Done()
	r := c.Hold(bufs[1], 0)
	require.NotNil(t, r, "the first one went")
	require.Nil(t, c.Hold(bufs[2], 0))
	require.Nil(t, c.Lend(bufs[2]))
	require.Same(t, r, c.Hold(bufs[1][:100], 0), "what is registered is used")
	r.Done()
	r.Done()
	n := 0
	for ; ; n++ {
		if r := c.Hold(bufs[2], 0); r != nil {
			r.Done()
			break
		}
	}
	require.Equal(t, maxPause-1, n)
	require.EqualValues(t, maxPause+1, c.Stats().Refused)
	require.True(t, c.Drop())
	require.False(t, c.Drop())
	require.Empty(t, dev.open)

	dev.err = errors.New("a bad address")
	require.Nil(t, c.Hold(bufs[0], 0))
	dev.err = nil
	r = c.Hold(bufs[0], 0)
	require.NotNil(t, r, "that was about this memory alone")
	r.Done()
	c.Close()
}

// TestSameAddress: memory that was freed and is something else now is registered anew. As
// long as a registration is kept, its memory is not freed; after it was dropped, the address
// comes back in time.
func TestSameAddress(t *testing.T) {
	const n, bufs = 128 << 10, 32
	var dev registrar
	c := newCache(&dev, bufs, bufs*n)
	was := holdNew(c, n, bufs)
	require.Nil(t, again(was, n, 200), "the cache has it")
	require.True(t, c.Drop())
	var q []byte
	for range 10 {
		if q = again(was, n, 4096); q != nil {
			break
		}
	}
	require.NotNil(t, q)
	hits := c.Stats().Hits
	r := c.Hold(q, 0)
	for _, key := range was {
		require.NotEqual(t, key, r.LKey(0))
	}
	require.Equal(t, hits, c.Stats().Hits)
	r.Done()
	c.Close()
}

// holdNew registers new slices and returns their addresses and keys.
func holdNew(c *Cache, n, bufs int) map[uintptr]uint32 {
	was := make(map[uintptr]uint32)
	for range bufs {
		p := make([]byte, n)
		r := c.Hold(p, 0)
		was[base(p)] = r.LKey(0)
		r.Done()
	}
	return was
}

// again frees what can be freed and allocates, until addresses come back, a page or more of
// what was registered as one; nil: none do.
func again(was map[uintptr]uint32, n, most int) []byte {
	runtime.GC()
	debug.FreeOSMemory()
	var others [][]byte // which fill the places below: the runtime takes the lowest
	for range most {
		q := make([]byte, n)
		for at := range was {
			from, to := max(at, base(q)), min(at, base(q))+uintptr(n)
			if from < to && to-from >= 4096 {
				return q[from-base(q) : to-base(q)]
			}
		}
		others = append(others, q)
	}
	runtime.KeepAlive(others)
	return nil
}

// TestForeignMemory: memory that is not Go's may be another's tomorrow, at the same address.
// It is registered for each operation.
func TestForeignMemory(t *testing.T) {
	var dev registrar
	c := newCache(&dev, 10, 1<<20)
	for range 3 {
		p, err := sys.Anonymous(1<<16, false)
		require.NoError(t, err)
		r := c.Hold(p, 0)
		require.Equal(t, device.Access(0), dev.open[r.Device().(*registered)], "it may be memory that cannot be written to")
		r.Done()
		require.Empty(t, dev.open)
		require.NoError(t, sys.Unmap(p))
	}
	require.EqualValues(t, 0, c.Stats().Hits)
}

// TestCacheConcurrent: shards register, use and drop; nobody uses what is not registered.
func TestCacheConcurrent(t *testing.T) {
	t.Run("new", func(t *testing.T) {
		dev := registrar{most: 6000}
		testConcurrent(t, newCache(&dev, 4, 5000), &dev, func(m device.MR) *registered { return m.(*registered) })
	})
	t.Run("renewed", func(t *testing.T) {
		dev := renewing{registrar{most: 6000}}
		c := NewCache(CacheConfig{Entries: 4, Bytes: 5000, Register: dev.register, Stays: sys.InGoHeap})
		testConcurrent(t, c, &dev.registrar, func(m device.MR) *registered { return m.(*renewable).registered })
	})
}

func testConcurrent(t *testing.T, c *Cache, dev *registrar, own func(device.MR) *registered) {
	bufs := make([][]byte, 8)
	for i := range bufs {
		bufs[i] = make([]byte, 1000)
	}
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(s)))
			for i := range 3000 {
				b := bufs[rnd.IntN(len(bufs))]
				var r *Region
				if i%10 == 0 {
					r = c.Lend(b)
				} else {
					r = c.Hold(b[rnd.IntN(500):][:500], 0)
				}
				if i%50 == 0 {
					c.Drop()
				}
				if r == nil {
					continue
				}
				dev.Lock()
				_, open := dev.open[own(r.Device())]
				dev.Unlock()
				if !open {
					t.Error("in use and not registered")
				}
				r.Done()
			}
		})
	}
	wg.Wait()
	c.Close()
	require.Empty(t, dev.open)
}

// TestHitAllocatesNothing is about memory that is registered.
func TestHitAllocatesNothing(t *testing.T) {
	var dev registrar
	c := newCache(&dev, 100, 1<<20)
	bufs := make([][]byte, 50)
	for i := range bufs {
		bufs[i] = make([]byte, 4096)
		c.Hold(bufs[i], 0).Done()
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, b := range bufs {
			c.Hold(b[100:], device.LocalWrite).Done()
		}
	}))
	c.Close()
}

// BenchmarkHold is about memory that is registered, one of many.
func BenchmarkHold(b *testing.B) {
	var dev registrar
	c := newCache(&dev, 1024, 1<<30)
	bufs := make([][]byte, 1000)
	for i := range bufs {
		bufs[i] = make([]byte, 4096)
		c.Hold(bufs[i], 0).Done()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c.Hold(bufs[i%len(bufs)], 0).Done()
	}
	c.Close()
}

// renewing is a registrar whose regions can be others once they are closed.
type renewing struct{ registrar }

type renewable struct{ *registered }

func (r *renewing) register(mem []byte, a device.Access) (device.MR, error) {
	m, err := r.registrar.register(mem, a)
	if err != nil {
		return nil, err
	}
	return &renewable{m.(*registered)}, nil
}

func (m *renewable) Clear() { m.mem = nil }

func (m *renewable) Renew(mem []byte, a device.Access) error {
	n, err := m.by.register(mem, a)
	if err == nil {
		m.registered = n.(*registered)
	}
	return err
}

func newRenewing(r *renewing) *Cache {
	return NewCache(CacheConfig{Entries: 1, Bytes: 1 << 20, Register: r.register, Stays: sys.InGoHeap})
}

// TestLendAgain: what was lent and is over is lent anew, as other memory with other keys; while it
// is in use, it is not.
func TestLendAgain(t *testing.T) {
	var dev renewing
	c := newRenewing(&dev)
	one, two := make([]byte, 100), make([]byte, 200)
	r := c.Lend(one)
	key := r.Key(0)
	other := c.Lend(two)
	require.NotSame(t, r, other)
	r.Done()
	require.Empty(t, r.Bytes(), "the memory is the collector's")
	r.Done() // one too many, which does nothing
	again := c.Lend(two)
	require.Same(t, r, again)
	require.Same(t, &two[0], &again.Bytes()[0])
	require.Len(t, again.Bytes(), 200)
	require.NotEqual(t, key, again.Key(0))
	require.EqualValues(t, 1, again.Users())
	require.False(t, again.Use(), "it is for one operation")
	require.Len(t, dev.open, 2)

	dev.err = errors.New("a bad address")
	other.Done()
	require.Nil(t, c.Lend(one))
	dev.err = nil
	require.Same(t, other, c.Lend(one), "a refusal loses nothing")
	again.Done()
	other.Done()
	require.Empty(t, dev.open)
	require.Equal(t, CacheStats{Lent: 4, Refused: 1}, c.Stats())
	c.Close()
}

// TestKeptIsNotRenewed: a registration that others may have found is never another one.
func TestKeptIsNotRenewed(t *testing.T) {
	var dev renewing
	c := newRenewing(&dev)
	one, two := make([]byte, 100), make([]byte, 100)
	r := c.Hold(one, 0)
	r.Done()
	c.Hold(two, 0).Done() // r makes room
	require.NotSame(t, r, c.Lend(one))
	require.False(t, r.Use())
}

// TestLendAllocates: a message whose memory others read is registered for itself, which costs the
// cache one object if the device has one of its own each time, and nothing if it renews them.
func TestLendAllocates(t *testing.T) {
	mem := make([]byte, 4096)
	var once device.MR = &fakeMR{mem: mem, addr: uint64(base(mem)), key: 1}
	for want, dev := range []device.MR{&same{fakeMR{mem: mem, addr: uint64(base(mem)), key: 1}}, once} {
		c := NewCache(CacheConfig{
			Entries: 1, Bytes: 1 << 20, Stays: sys.InGoHeap,
			Register: func([]byte, device.Access) (device.MR, error) { return dev, nil },
		})
		require.EqualValues(t, want, testing.AllocsPerRun(100, func() { c.Lend(mem).Done() }))
		c.Close()
	}
}

// same is a region that stays what it was.
type same struct{ fakeMR }

func (*same) Clear()                            {}
func (*same) Renew([]byte, device.Access) error { return nil }
