package engine

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/memory"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/runtime/clock"
)

// Config describes an Engine. Profile, Device and Clock are required.
type Config struct {
	Profile  profile.Profile
	Device   device.Device
	Clock    clock.Clock
	Findings *finding.Log // nil: nobody wants to know
	Shuffle  Shuffle
}

// Shuffle makes the engine hold packets back, on their way out of and into its
// queue pairs, and let them pass in an order that the seed chooses.
type Shuffle struct {
	Window int // packets held at most in each direction of a queue pair; 0: none
	Seed   uint64
}

// CQConfig describes a completion queue: SubCQs rings of Entries entries of
// EntrySize bytes, one behind the other in Ring.
type CQConfig struct {
	Ring      []byte
	Entries   int // a power of two
	EntrySize int // 16 or 32
	SubCQs    int
	SGID      bool
	Doorbell  []byte // 4 bytes; nil: none
	Notify    func() // one event, when armed; nil: no channel
}

// QPConfig describes a queue pair.
type QPConfig struct {
	PD               *PD
	SendCQ, RecvCQ   *CQ
	SendSub, RecvSub int
	SQ, RQ           []byte // SQ: SQEntries WQEs of WQESize; RQ: RQEntries descriptors of 16
	SQEntries        int    // powers of two
	RQEntries        int    // 0: no receive queue
	WQESize          int    // 64 or 128
	MaxRecvSGE       int
	SQDoorbell       []byte // 4 bytes each
	RQDoorbell       []byte
	UnsolicitedWrite bool
	Space            memory.Space
}

// Engine methods and those of its objects may be called from any goroutine; each
// takes the engine's lock, which is held for one Step at most.
//
//	New(Config) *Engine
//	(*Engine) Step() bool                 one round; false: nothing to do
//	(*Engine) Run(ctx)                    Step on a locked thread until ctx ends
//	(*Engine) NewPD(memory.Space) *PD     number, memory regions, address handles
//	(*Engine) NewCQ(CQConfig) *CQ
//	(*Engine) NewQP(QPConfig) (*QP, error)
//
//	(*PD) Number() uint16
//	(*PD) Register(start, length, iova uint64, a device.Access) (*MR, error)
//	(*PD) CreateAH(device.GID) (*AH, error)  the same GID: the same number, counted
//	(*PD) Close()
//	(*MR) LKey() uint32 (24 bits), RKey() uint32, Close()
//	(*AH) Number() uint16, Close()
//	(*CQ) Close(); events reported: (*CQ) Events() uint32
//	(*QP) Number() uint16                 from NewQP on
//	(*QP) Init(qkey uint32)               receives may be posted from here on
//	(*QP) Receive() error                 RTR: opens the device's queue pair with that number
//	(*QP) Send(rnrRetry uint8) error      RTS
//	(*QP) Fail()                          ERR: flushes, completes with StatusFlushed
//	(*QP) Close()                         nothing completes afterwards, no memory is touched
//
// After Close of an object the engine does not touch what it was given for it, so
// the caller may unmap the queues' memory.
type contract = device.Device
