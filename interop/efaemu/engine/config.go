package engine

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/interop/efaemu/faults"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/interop/efaemu/memory"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/runtime/clock"
)

// ErrConfig is the error of a QPConfig that makes no sense, or of a call in the wrong state.
var ErrConfig = errors.New("engine: bad configuration or state")

// Config describes an Engine. Profile, Device and Clock are required.
type Config struct {
	Profile  profile.Profile
	Device   device.Device
	Clock    clock.Clock
	Findings *finding.Log // nil: findings are dropped
	Shuffle  Shuffle
	Faults   *faults.Plan // nil: none

	// ExactDoorbells: Step is called after every store to a doorbell. Otherwise
	// doorbells are read now and then, and what depends on each single value is
	// unknown: batches of WQEs, requests for an event that were overwritten before
	// they were seen (see CQConfig.Notify), and overruns of completion queues.
	ExactDoorbells bool
}

// Shuffle makes the engine hold requests to send back, on their way out of its queue
// pairs, and let them pass in an order that the seed chooses. None is held for longer
// than about a millisecond.
type Shuffle struct {
	Window int // requests of a queue pair held at most; 0: none
	Seed   uint64
}

// CQConfig describes a completion queue: SubCQs rings of Entries entries of
// EntrySize bytes, one behind the other in Ring, which is zeroed. Ring and Doorbell
// are aligned to 4 bytes.
type CQConfig struct {
	Ring      []byte
	Entries   int // a power of two
	EntrySize int // 16 or 32
	SubCQs    int
	SGID      bool
	Doorbell  []byte // 4 bytes; nil: none

	// Notify reports one event; nil: no channel. It is called with the engine
	// locked, so it must not wait and not call the engine.
	//
	// The program arms with a doorbell and then often polls once more, whose
	// doorbell says "not armed" to an engine that missed the first. Each doorbell
	// with a number for which there was no event yet therefore counts as arming: a
	// program that never armed sees one event at most.
	Notify func()
}

// QPConfig describes a queue pair.
type QPConfig struct {
	PD               *PD
	SendCQ, RecvCQ   *CQ
	SendSub, RecvSub int
	SQ, RQ           []byte // SQ: SQEntries WQEs of WQESize; RQ: RQEntries descriptors of 16
	SQEntries        int    // powers of two, 32768 at most
	RQEntries        int    // 0: no receive queue
	WQESize          int    // 64 or 128
	MaxRecvSGE       int
	SQDoorbell       []byte // 4 bytes each, aligned; RQDoorbell nil: no receive queue
	RQDoorbell       []byte
	UnsolicitedWrite bool
	Datagram         bool // UD: sends alone; their fate is not reported
	Space            memory.Space
}
