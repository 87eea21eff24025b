package engine_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/memory"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/runtime/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// space is the memory of a program that lives in the test: a piece of the Go heap,
// with holes and an end.
type space struct {
	pid  int
	mem  []byte
	hole [2]uint64 // offsets in mem where nothing is mapped
	gone atomic.Bool
	dma  int // transfers
}

func newSpace(pid, n int) *space { return &space{pid: pid, mem: words(n)} }

// words is memory that is aligned.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}

func (s *space) base() uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.mem)))) }

func (s *space) at(p []byte, addr uint64) ([]byte, error) {
	s.dma++
	if s.gone.Load() {
		return nil, fmt.Errorf("test: %w", memory.ErrGone)
	}
	off := addr - s.base()
	if addr < s.base() || off+uint64(len(p)) > uint64(len(s.mem)) || off < s.hole[1] && off+uint64(len(p)) > s.hole[0] {
		return nil, fmt.Errorf("test: %w", memory.ErrFault)
	}
	return s.mem[off:][:len(p)], nil
}

func (s *space) ReadAt(p []byte, addr uint64) error {
	b, err := s.at(p, addr)
	copy(p, b)
	return err
}

func (s *space) WriteAt(p []byte, addr uint64) error {
	b, err := s.at(p, addr)
	copy(b, p)
	return err
}

func (s *space) PID() int { return s.pid }

// lender is a simulated device that carries RDMA into the programs of a test.
type lender struct {
	*sim.Device
	spaces map[int]*space
}

func (l *lender) Info() device.Info {
	i := l.Device.Info()
	i.Foreign = true
	return i
}

func (l *lender) RegisterForeign(pid int, addr uint64, n int, a device.Access) (device.MR, error) {
	s := l.spaces[pid]
	if s == nil {
		return nil, device.ErrNoMemory
	}
	return l.Register(s.mem[addr-s.base():][:n], a)
}

// world is a fabric with engines; programs are added with newProg.
type world struct {
	t       testing.TB
	fab     *sim.Fabric
	clk     clock.Clock
	moved   *clock.Manual // of a fabric that isn't virtual
	log     *finding.Log
	spaces  map[int]*space
	engines []*engine.Engine
	gids    []device.GID // of the engines
	running bool         // by themselves
}

type options struct {
	sim     sim.Config
	dev     sim.DeviceConfig
	engine  engine.Config
	profile func(*profile.Profile)
	bare    bool // device without RDMA into programs
}

func everything() profile.Profile {
	p, err := profile.Named("rdma-write")
	if err != nil {
		panic(err)
	}
	return p
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{t: t, log: new(finding.Log), spaces: map[int]*space{}, moved: new(clock.Manual)}
	if !o.sim.Virtual {
		o.sim.InOrder, o.sim.Clock = true, w.moved
	}
	fab, err := sim.New(o.sim)
	require.NoError(t, err)
	w.fab, w.clk = fab, fab.Clock()
	return w
}

// engine adds a card with a device of its own.
func (w *world) engine(o options) *engine.Engine {
	w.t.Helper()
	o.dev.RDMARead, o.dev.RDMAWrite = true, true
	d, err := w.fab.OpenDevice(o.dev)
	require.NoError(w.t, err)
	cfg := o.engine
	cfg.Clock, cfg.Findings = w.clk, w.log
	cfg.Profile = everything()
	if o.profile != nil {
		o.profile(&cfg.Profile)
	}
	if cfg.Device == nil {
		cfg.Device = &lender{d, w.spaces}
		if o.bare {
			cfg.Device = d
		}
	}
	e := engine.New(cfg)
	w.engines = append(w.engines, e)
	w.gids = append(w.gids, d.Info().GID)
	return e
}

// run lets everything play until nothing moves.
func (w *world) run() {
	for range 1 << 20 {
		worked := false
		for _, e := range w.engines {
			worked = e.Step() || worked
		}
		if !worked && !w.fab.Step() {
			return
		}
	}
	w.t.Fatal("it never ends")
}

// later lets time pass, in small steps.
func (w *world) later(d time.Duration) {
	const step = 50 * time.Microsecond
	for ; d > 0; d -= step {
		w.moved.Advance(step)
		w.fab.AdvanceTo(w.clk.Now().Add(step))
		w.run()
	}
}

// rules are those that were broken, each once, in alphabetical order.
func (w *world) rules() []string {
	var names []string
	found, _ := w.log.Take()
	for _, f := range found {
		names = append(names, f.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (w *world) clean() {
	w.t.Helper()
	found, n := w.log.Take()
	require.Zero(w.t, n, "%v", found)
}

// pattern is n bytes that identify their place.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed)
	}
	return b
}

func send(id uint16) abi.WQE { return abi.WQE{ReqID: uint64(id)} }
