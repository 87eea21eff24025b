package ope

import "fmt"

// RxState is where an operation stands whose data arrives here. The names are
// libfabric's where it has them.
//
//	            RXE_ASK (our own read: the request is to go out)
//	               | asked
//	               v
//	RXE_INIT --match--> RXE_MATCHED --all bytes--> RXE_DONE
//	   |                 ^       |                  ^
//	   +--no receive--> RXE_UNEXP  +--> RXE_ANSWER --+ RECEIPT or EOR posted
//
// A message that is whole in the packet with which it begins, and that a receive waits for, goes
// from RXE_INIT to RXE_DONE at once.
type RxState uint8

// The states.
const (
	RxInit    RxState = iota // the endpoint has not matched it yet
	RxUnexp                  // no receive is posted for it
	RxAsk                    // a read of ours whose request is not out
	RxMatched                // there is a place for the data
	RxAnswer                 // the data is there, RECEIPT or EOR is to go out
	RxDone
	RxErr
	numRxStates = iota
)

var rxNames = [numRxStates]string{"RXE_INIT", "RXE_UNEXP", "RXE_ASK", "RXE_MATCHED", "RXE_ANSWER", "RXE_DONE", "OPE_ERR"}

func (s RxState) String() string { return rxNames[s] }

// over reports whether nothing more is to come.
func (s RxState) over() bool { return s >= RxDone }

// RxEvent is what can happen to it.
type RxEvent uint8

// The events.
const (
	RxNoRecv RxEvent = iota // nothing matches yet
	RxMatch
	RxWhole      // a receive waited for the message, of which the first packet holds all
	RxAsked      // our read's request is out
	RxNACK       // it cannot be read, the sender is to send it (§4.7)
	RxLast       // the last bytes are in
	RxLastOwed   // the last bytes are in, and the peer waits for RECEIPT or EOR
	RxAnswered   // it was posted
	RxFail       // it ends without success
	RxReadFailed // a read ended without data
	RxAbandon    // the queue pair is closed: nothing with the device ever ends
	numRxEvents  = iota
)

var rxEventNames = [numRxEvents]string{
	"no-recv", "match", "whole", "asked", "nack", "last", "last-owed", "answered", "fail",
	"read-failed", "abandon",
}

func (e RxEvent) String() string { return rxEventNames[e] }

type rxNext struct {
	next RxState
	ok   bool
}

// rxTable is the whole machine: a pair with no entry is a violation.
var rxTable = [maxStates][maxEvents]rxNext{
	RxInit: {
		RxNoRecv: {RxUnexp, true}, RxMatch: {RxMatched, true}, RxWhole: {RxDone, true}, RxFail: {RxErr, true},
		RxAbandon: {RxErr, true},
	},
	RxUnexp: {RxMatch: {RxMatched, true}, RxFail: {RxErr, true}, RxAbandon: {RxErr, true}},
	RxAsk:   {RxAsked: {RxMatched, true}, RxFail: {RxErr, true}, RxAbandon: {RxErr, true}},
	RxMatched: {
		RxNACK: {RxMatched, true}, RxLast: {RxDone, true}, RxLastOwed: {RxAnswer, true}, RxFail: {RxErr, true},
		RxReadFailed: {RxMatched, true}, RxAbandon: {RxErr, true},
	},
	RxAnswer: {RxAnswered: {RxDone, true}, RxFail: {RxErr, true}, RxAbandon: {RxErr, true}},
	RxErr:    {RxReadFailed: {RxErr, true}, RxAbandon: {RxErr, true}},
}

var rxMoves = movesOf(func(s, e int) (uint8, bool) { n := rxTable[s][e]; return uint8(n.next), n.ok })

// Rx is the machine of one operation that receives: pure, the rxe copies data and
// posts what is due.
type Rx struct {
	State  RxState
	Proto  Proto
	Total  uint64
	Got    uint64 // bytes that came in packets
	Window uint64 // bytes granted and not yet come

	packets uint64 // of Total, what comes in packets
	read    uint64 // bytes that were read, or that have no room
	readAt  uint64 // next byte to read by RDMA
	readEnd uint64 // where reading ends
	reading int32  // RDMA reads with the device

	steps *Steps // counts what happens; may be nil
}

// Count has the steps of the machine counted.
func (r *Rx) Count(steps *Steps) { r.steps = steps }

// Begin arms the machine for total bytes of which the first packets come in
// packets, and the rest is read.
func (r *Rx) Begin(state RxState, p Proto, total, packets uint64) {
	// Field by field: a literal would be made aside and copied.
	r.State, r.Proto, r.Total, r.packets, r.reading = state, p, total, packets, 0
	r.Got, r.Window, r.read, r.readAt, r.readEnd = 0, 0, 0, 0, 0
}

// Take counts n bytes at off from a packet, and reports whether they may be used: a
// packet beyond the message, beyond the window or beyond what is missing is the
// peer's fault.
func (r *Rx) Take(off, n uint64, windowed bool) bool {
	if off > r.packets || n > r.packets-max(off, r.Got) || windowed && !r.inWindow(n) {
		return false
	}
	r.Got += n
	return true
}

// Whole counts all bytes of a message that its first packet holds.
func (r *Rx) Whole() bool {
	r.Got = r.Total
	return r.move(RxWhole)
}

// inWindow takes n bytes from the window, if it has so many.
func (r *Rx) inWindow(n uint64) bool {
	if n > r.Window || n == 0 && r.Total > 0 {
		return false
	}
	r.Window -= n
	return true
}

// misfit is why Take has not taken a packet.
func (r *Rx) misfit(off, n uint64, windowed bool) error {
	if windowed && off <= r.packets && n <= r.packets-max(off, r.Got) {
		return fmt.Errorf("%w: data of %d bytes in a window of %d", ErrViolation, n, r.Window)
	}
	return fmt.Errorf("%w: %d bytes at %d of %d, %d missing", ErrViolation, n, off, r.packets, r.packets-r.Got)
}

// StartReading decides what is read by RDMA: what does not come in packets, up to
// the end of the room for it. What has no room counts as come.
func (r *Rx) StartReading(room uint64) {
	r.readAt = r.packets
	r.readEnd = min(max(room, r.packets), r.Total)
	r.read = r.Total - r.readEnd
}

// NextRead is what to read next: at most limit bytes at off. False: nothing.
func (r *Rx) NextRead(limit uint64) (off, n uint64, ok bool) {
	if r.State != RxMatched || r.readAt == r.readEnd {
		return 0, 0, false
	}
	return r.readAt, min(r.readEnd-r.readAt, limit), true
}

// Reads counts a read of n bytes, from where NextRead said, that was posted.
func (r *Rx) Reads(n uint64) {
	r.readAt += n
	r.reading++
}

// ReadDone counts a read that has ended, of n bytes that are in.
func (r *Rx) ReadDone(n uint64) {
	r.reading--
	r.read += n
}

// ReadFailed counts a read that has ended without data, after which none begins.
func (r *Rx) ReadFailed() error {
	if err := r.Step(RxReadFailed); err != nil {
		return err
	}
	r.reading--
	r.StopReading()
	return nil
}

// Abandon ends the operation, unless it has ended well: reads that are with the device
// will never end.
func (r *Rx) Abandon() error {
	if r.State == RxDone {
		return nil
	}
	r.reading = 0
	return r.Step(RxAbandon)
}

// Refuse gives up reading: by READ_NACK what is missing is asked for in packets.
// No read is under way.
func (r *Rx) Refuse() error {
	if err := r.Step(RxNACK); err != nil {
		return err
	}
	r.read, r.readAt, r.readEnd = 0, 0, 0
	r.packets = r.Total
	return nil
}

// StopReading begins no more reads.
func (r *Rx) StopReading() { r.readEnd = r.readAt }

// Forgo counts what was not read yet as come.
func (r *Rx) Forgo() {
	r.read += r.readEnd - r.readAt
	r.readEnd = r.readAt
}

// ForgoAll counts all that was to be read as come.
func (r *Rx) ForgoAll() { r.read, r.readEnd = r.Total-r.packets, r.readAt }

// Replace says how the rest of a refused message comes.
func (r *Rx) Replace(p Proto) { r.Proto = p }

// PacketsIn reports whether all that comes in packets is there.
func (r *Rx) PacketsIn() bool { return r.Got == r.packets }

// Complete reports whether all bytes are in.
func (r *Rx) Complete() bool { return r.Got+r.read == r.Total && r.reading == 0 }

// Grant is the window to open now, 0 if none: at most limit bytes, when the one
// before is used up and bytes are missing (§3.2).
func (r *Rx) Grant(limit uint64) uint64 {
	if !protos[r.Proto].cts || r.State != RxMatched || r.Window > 0 {
		return 0
	}
	return min(r.packets-r.Got, limit)
}

// Granted opens the window.
func (r *Rx) Granted(n uint64) { r.Window = n }

// Step moves the machine.
func (r *Rx) Step(e RxEvent) error {
	if !r.move(e) {
		return noEdge(e, r.State)
	}
	return nil
}

// move is Step, and reports whether the table has an edge.
func (r *Rx) move(e RxEvent) bool {
	i := entryOf(uint8(r.State), uint8(e))
	n := rxMoves[i]
	if n == noMove {
		return false
	}
	if r.State = RxState(n); r.steps != nil {
		r.steps.rx[i]++
	}
	return true
}
