package ope

import "fmt"

// RxState is where a message being received stands. The names are libfabric's.
//
//	RXE_INIT --match--> RXE_MATCHED --all bytes--> RXE_DONE
//	   |                     ^
//	   +--no receive--> RXE_UNEXP
type RxState uint8

// The states.
const (
	RxInit    RxState = iota // the endpoint has not matched it yet
	RxUnexp                  // no receive is posted for it
	RxMatched                // a receive is
	RxDone
	RxErr
	numRxStates = iota
)

var rxNames = [numRxStates]string{"RXE_INIT", "RXE_UNEXP", "RXE_MATCHED", "RXE_DONE", "OPE_ERR"}

func (s RxState) String() string { return rxNames[s] }

// RxEvent is what can happen to it.
type RxEvent uint8

// The events.
const (
	RxNoRecv RxEvent = iota // nothing matches yet
	RxMatch
	RxLast // the last bytes are in
	RxFail
	numRxEvents = iota
)

var rxEventNames = [numRxEvents]string{"no-recv", "match", "last", "fail"}

func (e RxEvent) String() string { return rxEventNames[e] }

// rxTable is the whole machine: a pair with no entry is a violation.
var rxTable = [numRxStates][numRxEvents]struct {
	next RxState
	ok   bool
}{
	RxInit:    {RxNoRecv: {RxUnexp, true}, RxMatch: {RxMatched, true}, RxFail: {RxErr, true}},
	RxUnexp:   {RxMatch: {RxMatched, true}, RxFail: {RxErr, true}},
	RxMatched: {RxLast: {RxDone, true}, RxFail: {RxErr, true}},
}

// Rx is the machine of one message being received: pure, the rxe copies data and
// posts CTS.
type Rx struct {
	State  RxState
	Proto  Proto
	Total  uint64
	Got    uint64 // bytes that came
	Window uint64 // bytes granted and not yet come

	steps *Steps // counts what happens; may be nil
}

// Take counts n bytes at off and says whether they may be used: a packet beyond
// the message, beyond the window or beyond what is missing is the peer's fault.
func (r *Rx) Take(off, n uint64, ctsData bool) error {
	if off > r.Total || n > r.Total-off || n > r.Total-r.Got {
		return fmt.Errorf("%w: %d bytes at %d of %d, %d missing", ErrViolation, n, off, r.Total, r.Total-r.Got)
	}
	if ctsData {
		if n > r.Window || n == 0 {
			return fmt.Errorf("%w: CTSDATA of %d bytes in a window of %d", ErrViolation, n, r.Window)
		}
		r.Window -= n
	}
	r.Got += n
	return nil
}

// Complete tells whether all bytes are in.
func (r *Rx) Complete() bool { return r.Got == r.Total }

// Grant is the window to open now, 0 if none: at most limit bytes, when the one
// before is used up and bytes are missing (§3.2).
func (r *Rx) Grant(limit uint64) uint64 {
	if r.Proto != LongCTS || r.State != RxMatched || r.Window > 0 {
		return 0
	}
	return min(r.Total-r.Got, limit)
}

// Granted opens the window.
func (r *Rx) Granted(n uint64) { r.Window = n }

// Step moves the machine.
func (r *Rx) Step(e RxEvent) error {
	n := rxTable[r.State][e]
	if !n.ok {
		return fmt.Errorf("%w: %s in state %s", ErrViolation, rxEventNames[e], r.State)
	}
	if r.steps != nil {
		r.steps.rx[r.State][e]++
	}
	r.State = n.next
	return nil
}
