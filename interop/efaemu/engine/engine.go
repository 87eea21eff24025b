package engine

import (
	"context"
	"slices"
	"sync"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// Engine is an emulated card.
type Engine struct {
	cfg  Config
	info device.Info // Foreign: the device has RDMA into programs
	mask uint16      // of a QP number: libraries find a queue pair by these bits
	pool pool

	mu sync.Mutex

	// guarded by mu
	now      clock.Time // of this round
	looked   clock.Time // when lookAlive did
	qps      []*QP
	cqs      []*CQ
	slots    map[uint16]bool // numbers in use, under mask
	lastQPN  uint16
	opened   uint64 // queue pairs so far
	ahs      []*ahEntry
	freeAHs  int
	pds, mrs int
	lastPD   uint16
	lastCQ   int
	lastKey  uint32
	keys     map[uint32]*MR
	comps    [pollBatch]device.Completion
	stats    Stats
}

// New makes an engine.
func New(cfg Config) *Engine {
	e := &Engine{
		cfg: cfg, info: cfg.Device.Info(),
		slots: make(map[uint16]bool), keys: make(map[uint32]*MR),
	}
	mask := 1
	for mask < limit(cfg.Profile.MaxQP, 1<<16) {
		mask <<= 1
	}
	e.mask = uint16(mask - 1)
	e.pool = newPool(e.info)
	return e
}

// limit is n, or most if n is 0 or more.
func limit(n uint32, most int) int {
	if n == 0 || uint64(n) > uint64(most) {
		return most
	}
	return int(n)
}

// Step performs one round: a bounded part of the pending work. False: there was
// none, and nothing is held back.
func (e *Engine) Step() bool {
	worked, holding := e.round()
	return worked || holding
}

// Run steps until ctx ends, on a thread of its own. It is to be called once, in a
// goroutine of its own. It keeps a P even when it sleeps, so GOMAXPROCS must be higher
// than the number of running engines.
func (e *Engine) Run(ctx context.Context) {
	var idle idler
	defer idle.begin()()
	for ctx.Err() == nil {
		if worked, holding := e.round(); worked {
			idle.reset()
		} else {
			idle.sleep(holding)
		}
	}
}

// forget takes v off a list.
func forget[T comparable](list []T, v T) []T {
	if i := slices.Index(list, v); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// aligned reports whether b can be read as n bytes of 32-bit words.
func aligned(b []byte, n int) bool {
	return len(b) >= n && (n == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%4 == 0)
}

func powerOfTwo(n, most int) bool { return n > 0 && n <= most && n&(n-1) == 0 }
