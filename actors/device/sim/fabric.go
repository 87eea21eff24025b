package sim

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// Fabric connects the devices that were opened on it.
type Fabric struct {
	cfg     Config
	clk     clock.Clock
	virtual *Clock // nil in real time

	// direct is set if PostSend may go straight to the receiver: an immediate
	// fabric without rules and hook, of which no device ever stood still.
	direct atomic.Bool
	// moving is set if flights is not empty.
	moving atomic.Bool

	mu sync.Mutex // not used in virtual time

	// guarded by mu
	rng     *rand.Rand
	flights flightHeap
	held    int  // packets among flights that only the shuffling keeps
	flush   bool // one of them is for a queue pair that sleeps
	stood   bool // a device stood still
	seq     uint64
	spare   []*flight

	ports   map[device.GID]*port
	lastGID uint64
	opened  int   // devices so far
	qps     []*qp // open ones, oldest first
	rules   [numFaults][]*Rule
	counts  [numFaults]uint64
}

// port is the holder of a GID. It outlives the devices on it, so that a restarted
// one gets its late packets.
type port struct {
	gid     device.GID
	net     int
	devices int // open ones
	lastQPN uint16
	qps     map[uint16]*qp // open ones, and vanished ones
}

// New makes a fabric.
func New(cfg Config) (*Fabric, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	f := &Fabric{
		cfg:   cfg,
		clk:   cfg.Clock,
		rng:   rand.New(rand.NewPCG(cfg.Seed, 0x5eed)),
		ports: make(map[device.GID]*port),
	}
	if cfg.Virtual {
		f.virtual = new(Clock)
		f.clk = f.virtual
	}
	for _, r := range cfg.Rules {
		if _, err := f.AddRule(r); err != nil {
			return nil, err
		}
	}
	f.setDirect()
	return f, nil
}

// Clock is the clock of the fabric's devices.
func (f *Fabric) Clock() clock.Clock { return f.clk }

func (f *Fabric) lock() {
	if f.virtual == nil {
		f.mu.Lock()
	}
}

func (f *Fabric) unlock() {
	if f.virtual == nil {
		f.mu.Unlock()
	}
}

// immediate reports whether a packet without faults is delivered without delay.
func (f *Fabric) immediate() bool {
	return f.virtual == nil && f.cfg.InOrder && f.cfg.Delay == 0 && f.cfg.Jitter == 0
}

func (f *Fabric) setDirect() {
	rules := 0
	for _, rs := range f.rules {
		rules += len(rs)
	}
	f.direct.Store(f.immediate() && rules == 0 && f.cfg.Hook == nil && !f.stood)
}

// Pending returns how many things are in flight: packets, statuses, timers.
func (f *Fabric) Pending() int {
	f.lock()
	defer f.unlock()
	return len(f.flights)
}

// NextEvent returns the time of Step's next event; false: there is none.
func (f *Fabric) NextEvent() (clock.Time, bool) {
	f.lock()
	defer f.unlock()
	if len(f.flights) == 0 {
		return 0, false
	}
	return max(f.flights[0].at, f.clk.Now()), true
}

// Step performs the next event in flight and moves a virtual clock to its time.
// False: there was none. In real time it ignores delays.
func (f *Fabric) Step() bool {
	f.lock()
	defer f.unlock()
	if len(f.flights) == 0 {
		return false
	}
	fl := f.pop()
	if f.virtual != nil {
		f.virtual.advanceTo(fl.at)
	}
	f.happen(fl)
	return true
}

// AdvanceTo moves a virtual clock forward to t, for a scheduler with timers of its
// own. Events due until then stay in flight, for Step.
func (f *Fabric) AdvanceTo(t clock.Time) {
	if f.virtual != nil {
		f.virtual.advanceTo(t)
	}
}

// Clock is the time of a virtual fabric: it moves by Step and Fabric.AdvanceTo.
type Clock struct{ now atomic.Int64 }

// Now implements clock.Clock.
func (c *Clock) Now() clock.Time { return clock.Time(c.now.Load()) }

// advanceTo never goes back.
func (c *Clock) advanceTo(t clock.Time) {
	if t > c.Now() {
		c.now.Store(int64(t))
	}
}

// newRegions makes the table of the device that was opened last. In virtual time
// keys come from the seed and addresses are numbers, different ones for each
// device.
func (f *Fabric) newRegions(limit int) *nic.Regions {
	cfg := nic.RegionsConfig{Max: limit}
	if f.virtual != nil {
		cfg.Key, cfg.Base = func() uint64 { return uint64(f.rng.Uint32()) }, uint64(f.opened)<<40
	}
	return nic.NewRegions(cfg)
}

// hook calls the hook, if there is one. The fabric is locked, which puts the calls
// in order.
func (f *Fabric) hook(e Event) {
	if f.cfg.Hook != nil {
		e.Time = f.clk.Now()
		f.cfg.Hook(e)
	}
}
