package engine

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Kinds and statuses that are counted each.
const (
	numKinds    = int(abi.WorkWrite) + 1
	numStatuses = 32 // EFA uses 0 to 18
)

// Stats counts an engine's work since it was made.
type Stats struct {
	PDs, MRs, AHs, CQs, QueuePairs int // that are open; AHs: GIDs

	// By kind (abi.WorkOp) and status: completions of the send queues, and of the
	// receive queues, where abi.WorkWrite are writes with immediate.
	Sent     [numKinds][numStatuses]uint64
	Received [numKinds][numStatuses]uint64

	SentBytes, ReceivedBytes uint64 // that ended well, RDMA of others not counted
	ReadBytes, WrittenBytes  uint64 // of SentBytes, those of RDMA
	Pieces                   uint64 // of RDMA
	Retries                  uint64 // after RNR, of devices that don't do it themselves
	Stalls                   uint64 // the device's send queue was full

	Gone, Refused, Dropped uint64 // device.OpGone, device.OpRefused; arrivals that found no receiver
	UnknownSenders         uint64 // receives without address handle
	Events                 uint64
	Overruns               uint64 // of completion queues, if doorbells are exact
	Findings               uint64
}

// Completions is the number of completions of both kinds of queue with a status.
func (s *Stats) Completions(st device.Status) uint64 {
	var n uint64
	for k := range s.Sent {
		n += s.Sent[k][statusIndex(st)] + s.Received[k][statusIndex(st)]
	}
	return n
}

func statusIndex(st device.Status) int { return min(int(st), numStatuses-1) }

func kindIndex(op abi.WorkOp) int {
	if int(op) >= numKinds { // a send queue's garbage
		return 0
	}
	return int(op)
}

// Stats returns the counters so far.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.PDs, s.MRs, s.AHs = e.pds, e.mrs, len(e.ahs)-e.freeAHs
	s.CQs, s.QueuePairs = len(e.cqs), len(e.qps)
	return s
}
