package efa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/runtime/sys"
)

// Progress is who runs a domain's shards.
type Progress = shard.Mode

// The ways to make progress. In all of them progress is automatic: long messages
// move while the application does something else.
const (
	// ProgressAuto picks by the number of cores; Domain.Progress tells what.
	ProgressAuto = shard.Auto
	// ProgressPinned has a thread of its own on one CPU poll the device. Where processors are few, a
	// goroutine that waits polls in its place: ProgressReason says so.
	ProgressPinned = shard.Pinned
	// ProgressManual lets the goroutine that waits poll the device itself, and
	// a helper when nobody waits. Lowest latency, and best on few cores.
	ProgressManual = shard.Manual
)

// ParseProgress reads "auto", "pinned" or "manual".
func ParseProgress(s string) (_ Progress, err error) {
	defer formed("parse progress", &err)
	return shard.ParseMode(s)
}

// DomainConfig says how a domain runs its endpoints.
type DomainConfig struct {
	Progress Progress
	// Shards is how many shards there are; endpoints are spread over them,
	// each lives on one. 0 means 1.
	Shards int
	// CPUs are where pinned shards may run, in turn; nil: any that the process
	// may use.
	CPUs []int
	// Spin is how long an idle shard polls at most before it sleeps; 0: 150 us. A shard whose gaps are mostly
	// longer sleeps at once, and one that shares its CPU gives that to other threads, those of other processes
	// too, after every look.
	Spin time.Duration

	// Registrations is how many registrations of plain memory are kept, on a device that
	// wants registered memory (EFA), for the next operation with the same memory
	// (FI_MR_CACHE_MAX_COUNT); 0: 1024; negative: none. What they hold is kept from the
	// garbage collector and counts against the limit of locked memory; those that were not
	// used for longest make room. ProtocolConfig.MinRegister is from where on memory is
	// registered.
	Registrations int
	// RegistrationBytes is the most that they hold together (FI_MR_CACHE_MAX_SIZE); 0: 256
	// MiB.
	RegistrationBytes int64
}

// Domain is the shards that run endpoints on a device, and the memory that they
// use (fi_domain).
type Domain struct {
	fab    *Fabric
	shards []*shard.Shard
	sim    bool // time and progress come from the device

	regions mr.Table  // what peers may use, and devices read
	plain   *mr.Cache // registrations of other memory

	mu     sync.Mutex
	eps    users[*Endpoint] // eps.closed: the domain is
	pools  users[*RecvPool]
	memory int // memory regions
	next   int // shard of the next endpoint
}

// OpenDomain starts a domain's shards.
func (f *Fabric) OpenDomain(cfg DomainConfig) (_ *Domain, err error) {
	defer formed("open domain", &err)
	if cfg.Shards < 0 || cfg.Spin < 0 || cfg.RegistrationBytes < 0 {
		return nil, fmt.Errorf("%w: %d shards, spin %v, registrations of %d bytes",
			ErrInvalid, cfg.Shards, cfg.Spin, cfg.RegistrationBytes)
	}
	d := &Domain{fab: f, plain: mr.NewCache(mr.CacheConfig{
		Entries: max(0, cmp.Or(cfg.Registrations, 1024)), Bytes: cmp.Or(cfg.RegistrationBytes, 256<<20), Register: f.dev.Register,
		Stays: sys.InGoHeap,
	})}
	if err := f.domains.add(d); err != nil {
		return nil, err
	}
	d.eps.init(&d.mu, "the domain is closed")
	d.pools.init(&d.mu, "the domain is closed")
	n := max(cfg.Shards, 1)
	for i := range n {
		sc := shard.Config{
			Name: fmt.Sprintf("%s-%d", strings.Join(f.schemes(), "+"), i), Mode: cfg.Progress, Spin: cfg.Spin,
			PinCPU: cfg.CPUs, Logger: f.log,
		}
		if len(cfg.CPUs) > 0 {
			sc.PinCPU = cfg.CPUs[i%len(cfg.CPUs) : i%len(cfg.CPUs)+1]
		}
		env := f.dev.Environment()
		if env != nil {
			d.sim = true
			sc.External, sc.Clock, sc.Waiter, sc.Seed = true, env.Clock(), env.Waiter(), env.Seed()
		}
		s, err := shard.New(sc)
		if err != nil {
			_ = d.Close() // the first error says what is wrong
			return nil, err
		}
		d.shards = append(d.shards, s)
		if env != nil {
			env.Attach(s)
		}
	}
	return d, nil
}

// NewAddressVector makes an empty one.
func (d *Domain) NewAddressVector() *AddressVector {
	av := &AddressVector{dom: d, byAddr: make(map[RawAddr]Addr)}
	av.eps.init(&av.mu, "the address vector")
	av.table.init()
	return av
}

// OpenAddressVector makes an address vector with settings. ErrInvalid: they leave no peer that could be
// in it, or the fabric has only the shared memory that NoSharedMemory does without.
func (d *Domain) OpenAddressVector(cfg AddressVectorConfig) (_ *AddressVector, err error) {
	defer formed("open address vector", &err)
	if cfg.LocalOnly && cfg.RemoteOnly {
		return nil, fmt.Errorf("%w: an address vector with LocalOnly and RemoteOnly takes nobody", ErrInvalid)
	}
	if cfg.NoSharedMemory && len(d.fab.paths) == 1 && d.fab.paths[0].scheme == sharedMemory {
		return nil, fmt.Errorf("%w: NoSharedMemory on a fabric that is on %s alone", ErrInvalid, d.fab.Name())
	}
	av := d.NewAddressVector()
	av.cfg = cfg
	return av, nil
}

// NewQueue makes a queue for up to depth outstanding operations, see Limits; 0
// means 1024.
func (d *Domain) NewQueue(depth int) (_ *Queue, err error) {
	defer formed("new queue", &err)
	if depth < 0 || depth > maxDepth {
		return nil, fmt.Errorf("%w: queue depth %d, at most %d", ErrInvalid, depth, maxDepth)
	}
	if depth == 0 {
		depth = defaultDepth
	}
	q := &Queue{dom: d, depth: depth}
	q.readers.init()
	q.sources.Store(new([]*source))
	return q, nil
}

// NewCounter makes a counter at zero.
func (d *Domain) NewCounter() *Counter { return &Counter{dom: d} }

// NewRecvPool makes a pool of receives. Its shard is the next one in turn, as an endpoint's is.
// Errors: ErrNoCQ without a queue, ErrDomain if the queue or the address vector is another domain's,
// ErrInvalid of a depth that cannot be, ErrClosed of a closed domain.
func (d *Domain) NewRecvPool(cfg RecvPoolConfig) (_ *RecvPool, err error) {
	defer formed("new receive pool", &err)
	switch {
	case cfg.AV != nil && cfg.AV.dom != d:
		return nil, fmt.Errorf("%w: the address vector is another domain's", ErrDomain)
	case cfg.Queue == nil:
		return nil, fmt.Errorf("%w: a pool of receives needs a queue", ErrNoCQ)
	case cfg.Queue.dom != d:
		return nil, fmt.Errorf("%w: the queue is another domain's", ErrDomain)
	case cfg.Depth < 0 || cfg.Depth > ope.MaxOps:
		return nil, fmt.Errorf("%w: depth %d of a pool, at most %d", ErrInvalid, cfg.Depth, ope.MaxOps)
	}
	e := new(Endpoint)
	p := &RecvPool{at: e}
	p.eps.init(&p.mu, "the receive pool")
	if err := d.pools.add(p); err != nil {
		return nil, err
	}
	if cfg.AV == nil {
		cfg.AV = d.NewAddressVector()
	}
	e.dom, e.sh, e.log = d, d.shard(), d.fab.log
	e.cfg = EndpointConfig{AV: cfg.AV, RecvQueue: cfg.Queue, RxDepth: cfg.Depth}
	e.initOutcomes(&e.cfg)
	if e.recvTo, err = cfg.Queue.bind(e); err != nil {
		d.pools.remove(p)
		return nil, err
	}
	if p.act, err = endpoint.OpenSRX(endpoint.SRXConfig{Shard: e.sh, Depth: poolRing, OnFlush: e.flush}); err != nil {
		cfg.Queue.unbind(e)
		d.pools.remove(p)
		return nil, err
	}
	e.state.Store(enabled)
	return p, nil
}

// Fabric is the domain's.
func (d *Domain) Fabric() *Fabric { return d.fab }

// Progress is the mode in force.
func (d *Domain) Progress() Progress { return d.shards[0].Mode() }

// ProgressReason says why that mode is in force.
func (d *Domain) ProgressReason() string { return d.shards[0].ModeReason() }

// Close fails with ErrBusy while endpoints or memory regions are open, then stops
// the shards.
func (d *Domain) Close() (err error) {
	defer formed("close domain", &err)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eps.closed {
		return nil
	}
	if n := len(d.eps.list); n > 0 {
		return fmt.Errorf("%w: %d endpoints of the domain are open", ErrBusy, n)
	}
	if n := len(d.pools.list); n > 0 {
		return fmt.Errorf("%w: %d receive pools of the domain are open", ErrBusy, n)
	}
	if d.memory > 0 {
		return fmt.Errorf("%w: %d memory regions of the domain are open", ErrBusy, d.memory)
	}
	d.eps.closed, d.pools.closed = true, true
	d.plain.Close()
	var first error
	for _, s := range d.shards {
		if err := s.Close(); err != nil && first == nil {
			first = err
		}
	}
	d.fab.domains.remove(d)
	return first
}

// shard picks where the next endpoint lives.
func (d *Domain) shard() *shard.Shard {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.shards[d.next%len(d.shards)]
	d.next++
	return s
}

// enter counts a memory region.
func (d *Domain) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.eps.closed {
		return d.eps.refusal()
	}
	d.memory++
	return nil
}

func (d *Domain) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory--
}

// begun are the endpoints that have been enabled and have not ended, those that are about
// to among them.
func (d *Domain) begun() []*Endpoint {
	return slices.DeleteFunc(d.eps.all(), func(c *Endpoint) bool { return c.state.Load() == disabled || c.act.Load() == nil })
}

// busy is a shard that has something to do, if there is one.
func (d *Domain) busy() *shard.Shard {
	for _, e := range d.eps.all() {
		if e.live() == nil {
			return e.sh
		}
	}
	return d.shards[0]
}

// openPools are those that have been made and have not ended.
func (d *Domain) openPools() []*RecvPool {
	return slices.DeleteFunc(d.pools.all(), func(p *RecvPool) bool { return p.at.state.Load() == disabled })
}

// users are what uses an object, which can only be closed without any.
type users[T comparable] struct {
	mu     sync.Locker // the object's; guards the users
	gone   string      // the text of ErrClosed
	list   []T         // oldest first
	closed bool        // the object is
}

func (u *users[T]) init(mu sync.Locker, gone string) { u.mu, u.gone = mu, gone }

func (u *users[T]) add(x T) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return u.refusal()
	}
	u.list = append(u.list, x)
	return nil
}

func (u *users[T]) refusal() error { return fmt.Errorf("%w: %s", ErrClosed, u.gone) }

func (u *users[T]) remove(x T) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = without(u.list, x)
}

func (u *users[T]) all() []T {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.list)
}
