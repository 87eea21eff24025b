package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/machine"
)

// TxState is where an operation stands whose data leaves from here (§3.2). The
// names are libfabric's where it has them.
//
//	           posted           CTS                 posted
//	TXE_REQ -----------> WAIT --------> OPE_SEND -----------> WAIT ...
//	  |  ^                                  |
//	  |  | READ_NACK                        |
//	  |  +-------------+                    |
//	  | all is out,    |                    |
//	  | an answer due  |                    |
//	  +-----------> TXE_AWAIT <-------------+
//	  | all is out     | answer             |
//	  +-----------> TXE_DRAIN <-------------+
//	                   | last ack
//	                   v
//	  any --fail--> OPE_ERR  TXE_DONE
type TxState uint8

// The states.
const (
	TxReq   TxState = iota // requests, or a response, are to be posted
	TxWait                 // request or window is out, CTS is to come
	TxSend                 // CTSDATA may be posted
	TxAwait                // everything is out, RECEIPT, EOR or ATOMRSP is to come
	TxDrain                // nothing is to come but acknowledgements
	TxDone
	TxErr
	numTxStates = iota
)

var txNames = [numTxStates]string{"TXE_REQ", "TXE_WAIT", "OPE_SEND", "TXE_AWAIT", "TXE_DRAIN", "TXE_DONE", "OPE_ERR"}

func (s TxState) String() string { return txNames[s] }

// posts reports whether packets may be posted.
func (s TxState) posts() bool { return s == TxReq || s == TxSend }

// TxEvent is what can happen to it.
type TxEvent uint8

// The events.
const (
	TxPosted      TxEvent = iota // a packet went out, more may follow at once
	TxOpened                     // the response went out, and the request had granted a window
	TxPaused                     // a packet went out, the next needs a CTS
	TxPostedAll                  // the last packet went out
	TxAsked                      // the last packet went out, and is to be answered
	TxCTS                        // the receiver grants a window
	TxAnswered                   // the answer came, packets are under way or to be posted
	TxAnsweredAll                // the answer came, and every packet had arrived
	TxNACK                       // the receiver cannot read: begin again with long-CTS (§4.7)
	TxAcked                      // a packet arrived, others are under way or to come
	TxAckedAll                   // the last packet arrived
	TxFail                       // it ends without success
	TxAbandon                    // the queue pair is closed: no packet of its own ever ends
	TxDelivered                  // the only packet went out, and had arrived at once
	numTxEvents   = iota
)

var txEventNames = [numTxEvents]string{
	"posted", "opened", "paused", "posted-all", "asked", "cts", "answered", "answered-all", "nack",
	"acked", "acked-all", "fail", "abandon", "delivered",
}

func (e TxEvent) String() string { return txEventNames[e] }

type txNext struct {
	next TxState
	ok   bool
}

// txTable is the whole machine: a pair with no entry is a violation.
var txTable = [machine.States][machine.Events]txNext{
	TxReq: {
		TxPosted: {TxReq, true}, TxOpened: {TxSend, true}, TxPaused: {TxWait, true}, TxPostedAll: {TxDrain, true},
		TxAsked: {TxAwait, true}, TxAnswered: {TxReq, true}, TxAcked: {TxReq, true},
		TxFail: {TxErr, true}, TxAbandon: {TxErr, true}, TxDelivered: {TxDone, true},
	},
	TxWait: {TxCTS: {TxSend, true}, TxAcked: {TxWait, true}, TxFail: {TxErr, true}, TxAbandon: {TxErr, true}},
	TxSend: {
		TxPosted: {TxSend, true}, TxPaused: {TxWait, true}, TxPostedAll: {TxDrain, true}, TxAsked: {TxAwait, true},
		TxAcked: {TxSend, true}, TxFail: {TxErr, true}, TxAbandon: {TxErr, true},
	},
	TxAwait: {
		TxAnswered: {TxDrain, true}, TxAnsweredAll: {TxDone, true}, TxNACK: {TxReq, true}, TxAcked: {TxAwait, true},
		TxFail: {TxErr, true}, TxAbandon: {TxErr, true},
	},
	TxDrain: {TxAcked: {TxDrain, true}, TxAckedAll: {TxDone, true}, TxFail: {TxErr, true}, TxAbandon: {TxErr, true}},
	TxErr: {
		TxAcked: {TxErr, true}, TxAckedAll: {TxErr, true}, TxCTS: {TxErr, true}, TxFail: {TxErr, true},
		TxAbandon: {TxErr, true},
	},
}

var txMoves = machine.Of(func(s, e int) (uint8, bool) { n := txTable[s][e]; return uint8(n.next), n.ok })

// ErrViolation is wrapped by errors about events that a state does not allow.
var ErrViolation = machine.ErrViolation

// Tx is the machine of one operation that sends: pure, the txe carries out what it
// allows.
type Tx struct {
	State  TxState
	Proto  Proto
	answer bool   // an answer is still to come
	parts  bool   // requests are cut: the last takes the rest
	seg    uint32 // bytes of a request
	Flying int32  // packets with the device
	left   int32  // requests to post
	Total  uint64 // bytes of the operation
	end    uint64 // of them, what goes out from here; the peer reads the rest
	Sent   uint64 // bytes handed to the device
	Acked  uint64 // bytes that arrived
	Window uint64 // bytes that the receiver still grants

	steps *Steps // counts what happens; may be nil
}

// Segment is a packet that may be posted now.
type Segment struct {
	Off, Len uint64
	Data     bool // CTSDATA; else a request or a response
}

// Shape is how an operation is to be sent.
type Shape struct {
	Proto Proto
	Total uint64
	Sent  uint64 // of Total, what has arrived already
	End   uint64 // what goes out from here of Total
	Seg   int    // bytes that one request carries
	Parts int    // requests
	// Window is what the peer has granted beforehand, of End: a read response.
	Window uint64
}

// Count has the machine count what happens in steps, from now on.
func (t *Tx) Count(steps *Steps) { t.steps = steps }

// Expect says that the operation, which Start has yet to begin, has so many bytes.
func (t *Tx) Expect(total uint64) {
	if t.Proto == ProtoNone {
		t.Total = total
	}
}

// Reset makes it the machine of an operation that is not known yet.
func (t *Tx) Reset() {
	*t = Tx{steps: t.steps}
}

// Start says how the operation is sent.
func (t *Tx) Start(s *Shape) {
	p := &protos[s.Proto]
	// Field by field: a literal would be made aside and copied, which waits for
	// its stores.
	t.State, t.Proto = TxReq, s.Proto
	t.Total, t.Sent, t.Acked, t.end = s.Total, s.Sent, s.Sent, s.End
	t.seg, t.left, t.Window = uint32(s.Seg), int32(s.Parts), s.Window
	t.parts, t.answer = p.parts, p.answer != noAnswer
	if s.Proto == RuntRead && s.End == s.Total {
		t.answer = false // nothing is left to be read (§4.5)
	}
}

// Next is the packet to post next, if one may be posted. maxData is what a
// CTSDATA packet carries.
func (t *Tx) Next(maxData int) (Segment, bool) {
	rest := t.end - t.Sent
	switch t.State {
	case TxReq:
		if t.left == 0 {
			return Segment{}, false // its turn has not come
		}
		n := min(uint64(t.seg), rest)
		if t.parts && t.left == 1 {
			n = rest
		}
		return Segment{Off: t.Sent, Len: n}, true
	case TxSend:
		return Segment{Off: t.Sent, Len: min(uint64(maxData), t.Window, rest), Data: true}, true
	default:
		return Segment{}, false
	}
}

// Posted tells the machine that the device took the packet that Next named.
func (t *Tx) Posted(s Segment) error {
	t.Sent += s.Len
	t.Flying++
	if !s.Data {
		t.left--
	}
	if s.Data || t.Proto == ReadResponse {
		t.Window -= s.Len
	}
	e := TxPosted
	switch {
	case t.left > 0:
	case t.Sent == t.end && t.answer:
		e = TxAsked
	case t.Sent == t.end:
		e = TxPostedAll
	case t.Window == 0:
		e = TxPaused
	case !s.Data:
		e = TxOpened
	}
	if !t.move(e) {
		return machine.NoEdge(e, t.State)
	}
	return nil
}

// Whole is Posted for a message that went out in one packet and needs no answer. It reports
// whether the table has an edge.
func (t *Tx) Whole() bool {
	t.left, t.Sent = 0, t.end
	t.Flying++
	return t.move(TxPostedAll)
}

// Delivered is Whole if the packet has arrived, as Ack would say.
func (t *Tx) Delivered() bool {
	t.left, t.Sent, t.Acked = 0, t.end, t.end
	return t.move(TxDelivered)
}

// CTS opens a window of n bytes. The peer may only grant what is left, and only
// when the window before is used up (§3.2); anything else is its fault.
func (t *Tx) CTS(n uint64) error {
	if !protos[t.Proto].cts || n == 0 || n > t.end-t.Sent {
		return fmt.Errorf("%w: CTS of %d bytes for a message with %d left", ErrViolation, n, t.end-t.Sent)
	}
	if err := t.step(TxCTS); err != nil {
		return err
	}
	t.Window = n
	return nil
}

// Answer takes RECEIPT, EOR or ATOMRSP. That may overtake the acknowledgement of
// the packet that it answers, and the EOR of a runting read the runt's last packets.
func (t *Tx) Answer(a answer) error {
	if protos[t.Proto].answer != a || !t.answer || t.State == TxReq && t.Proto != RuntRead {
		return fmt.Errorf("%w: unexpected answer to %s in state %s", ErrViolation, t.Proto, t.State)
	}
	e := TxAnswered
	if t.State == TxAwait && t.Flying == 0 {
		e = TxAnsweredAll
	}
	if err := t.step(e); err != nil {
		return err
	}
	t.answer = false
	return nil
}

// NACK begins again in the shape that replaces the read-based one.
func (t *Tx) NACK(s *Shape) error {
	if !t.Proto.readBased() || !t.answer {
		return fmt.Errorf("%w: READ_NACK for %s", ErrViolation, t.Proto)
	}
	if err := t.step(TxNACK); err != nil {
		return err
	}
	acked := t.Acked
	t.Start(s)
	t.Acked = acked
	return nil
}

// Ack counts a packet of n bytes that arrived.
func (t *Tx) Ack(n int) error {
	t.Acked += uint64(n)
	t.Flying--
	e := TxAcked
	if t.Flying == 0 && (t.State == TxDrain || t.State == TxErr) {
		e = TxAckedAll
	}
	if !t.move(e) {
		return machine.NoEdge(e, t.State)
	}
	return nil
}

// Lost counts a packet that will never arrive, and fails the operation.
func (t *Tx) Lost() error {
	t.Flying--
	return t.step(TxFail)
}

// Over reports whether the operation has ended, well or not.
func (t *Tx) Over() bool { return t.State == TxDone || t.State == TxErr }

// Fail ends the operation without success, unless it has ended well.
func (t *Tx) Fail() error {
	if t.State == TxDone {
		return nil
	}
	return t.step(TxFail)
}

// Abandon ends the operation, unless it has ended well: what is with the device will
// never be acknowledged.
func (t *Tx) Abandon() error {
	if t.State == TxDone {
		return nil
	}
	t.Flying = 0
	return t.step(TxAbandon)
}

func (t *Tx) step(e TxEvent) error {
	if !t.move(e) {
		return machine.NoEdge(e, t.State)
	}
	return nil
}

// move is step, and reports whether the table has an edge.
func (t *Tx) move(e TxEvent) bool {
	i := machine.Entry(uint8(t.State), uint8(e))
	n := txMoves[i]
	if n == machine.None {
		return false
	}
	if t.State = TxState(n); t.steps != nil {
		t.steps.tx[i]++
	}
	return true
}

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
var rxTable = [machine.States][machine.Events]rxNext{
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

var rxMoves = machine.Of(func(s, e int) (uint8, bool) { n := rxTable[s][e]; return uint8(n.next), n.ok })

// Rx is the machine of one operation that receives: pure, the rxe copies data and
// posts the packets that are due.
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
// packet beyond the message, beyond the window or beyond the missing bytes is the
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

// StartReading decides which bytes are read by RDMA: those that do not come in packets, up to
// the end of the room for them. Bytes without room count as come.
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

// Refuse gives up reading: READ_NACK asks for the missing bytes in packets.
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
		return machine.NoEdge(e, r.State)
	}
	return nil
}

// move is Step, and reports whether the table has an edge.
func (r *Rx) move(e RxEvent) bool {
	i := machine.Entry(uint8(r.State), uint8(e))
	n := rxMoves[i]
	if n == machine.None {
		return false
	}
	if r.State = RxState(n); r.steps != nil {
		r.steps.rx[i]++
	}
	return true
}

// CallerState is what the application still holds of an operation: the outcome that it
// waits for, and the buffer that it must not touch before.
//
//	                cancel              copied
//	HOLDING -----------------> LEAVING ---------> DETACHED
//	  |   |                     ^  |  |
//	  |   | withdraw  withdrawn |  |  | until-cts         cts
//	  |   +----> WITHDRAWING ---+  |  +---------> ENDING -----> TOLD
//	  |                 too-late   | revoke
//	  +------- revoke -------> REVOKED
//
//	HOLDING, WITHDRAWING, LEAVING, REVOKED --outcome--> TOLD
//
// Table callerTable has every edge. An operation without a caller, such as the answer to
// a peer's request, begins in TOLD.
type CallerState uint8

// The states. In the first four the caller waits for its outcome.
const (
	CallerHolding     CallerState = iota
	CallerWithdrawing             // canceled before its turn: the peer was asked to take it out of the line
	CallerLeaving                 // canceled: it gets its outcome when nothing needs its buffer
	CallerRevoked                 // its memory region is being closed: it waits for the packets that need it
	CallerDetached                // it has its outcome, the operation goes on with a copy of the rest
	CallerEnding                  // it has its outcome, the operation ends with the first CTS
	CallerTold                    // it has its outcome
	numCallerStates   = iota
)

var callerNames = [numCallerStates]string{"HOLDING", "WITHDRAWING", "LEAVING", "REVOKED", "DETACHED", "ENDING", "TOLD"}

func (s CallerState) String() string { return callerNames[s] }

// CallerEvent is what can happen to the caller of an operation.
type CallerEvent uint8

// The events.
const (
	CallerWithdraw  CallerEvent = iota // it cancels an operation that is in the peer's line
	CallerWithdrawn                    // the peer took the operation out of the line
	CallerTooLate                      // the operation's turn had come before that
	CallerCancel                       // it cancels an operation that is under way
	CallerRevoke                       // a region that the peer may read is being closed
	CallerCopied                       // what is not sent yet was copied
	CallerUntilCTS                     // no data is needed: the next CTS is answered with PEER_ERROR
	CallerCTS                          // that CTS came
	CallerLate                         // the buffer was needed for longer than PeerTimeout
	CallerOutcome                      // it gets its outcome
	numCallerEvents = iota
)

var callerEventNames = [numCallerEvents]string{
	"withdraw", "withdrawn", "too-late", "cancel", "revoke", "copied", "until-cts", "cts", "late", "outcome",
}

func (e CallerEvent) String() string { return callerEventNames[e] }

type callerNext struct {
	next CallerState
	ok   bool
}

// callerTable is the whole machine: a pair with no entry is a violation.
var callerTable = [machine.States][machine.Events]callerNext{
	CallerHolding: {
		CallerWithdraw: {CallerWithdrawing, true}, CallerCancel: {CallerLeaving, true},
		CallerRevoke: {CallerRevoked, true}, CallerOutcome: {CallerTold, true},
	},
	CallerWithdrawing: {
		CallerWithdrawn: {CallerLeaving, true}, CallerTooLate: {CallerLeaving, true}, CallerOutcome: {CallerTold, true},
	},
	CallerLeaving: {
		CallerRevoke: {CallerRevoked, true}, CallerCopied: {CallerDetached, true}, CallerUntilCTS: {CallerEnding, true},
		CallerLate: {CallerLeaving, true}, CallerOutcome: {CallerTold, true},
	},
	CallerRevoked: {CallerOutcome: {CallerTold, true}},
	CallerEnding:  {CallerCTS: {CallerTold, true}},
}

var callerMoves = machine.Of(func(s, e int) (uint8, bool) { n := callerTable[s][e]; return uint8(n.next), n.ok })

// Caller is the machine of an operation's caller: pure, like [Tx] and [Rx]. The txe or
// rxe says what happened and acts on the state.
type Caller struct {
	state CallerState
	steps *Steps // counts what happens; may be nil
}

// Count has the machine count what happens in steps, from now on.
func (c *Caller) Count(steps *Steps) { c.steps = steps }

// Start arms the machine. waits says that there is a caller.
func (c *Caller) Start(waits bool) {
	c.state = CallerHolding
	if !waits {
		c.state = CallerTold
	}
}

// State is where the caller stands.
func (c *Caller) State() CallerState { return c.state }

// Told reports whether the caller has its outcome, or there is none.
func (c *Caller) Told() bool { return c.state >= CallerDetached }

// Step moves the machine.
func (c *Caller) Step(e CallerEvent) error {
	if !c.move(e) {
		return machine.NoEdge(e, c.state)
	}
	return nil
}

// move is Step, and reports whether the table has an edge.
func (c *Caller) move(e CallerEvent) bool {
	i := machine.Entry(uint8(c.state), uint8(e))
	n := callerMoves[i]
	if n == machine.None {
		return false
	}
	if c.state = CallerState(n); c.steps != nil {
		c.steps.caller[i]++
	}
	return true
}

// Mix counts operations by subprotocol: those chosen here, first choices and what took
// their place, and those that peers chose for what they sent or asked for. Written on
// the shard.
type Mix struct {
	Chosen, Served [NumProtos]uint64
}

// Steps counts what the machines of an endpoint's operations did: how often each
// event came in each state. Written on the shard.
type Steps struct {
	tx, rx, caller machine.Counts
}

// Each calls f for every pair that the tables allow, whether it ever came or not:
// first of sending, then of receiving, then of callers, in the order of states and events.
func (c *Steps) Each(f func(machine, state, event string, n uint64)) {
	c.tx.Each(&txMoves, func(s, e int, n uint64) { f("tx", txNames[s], txEventNames[e], n) })
	c.rx.Each(&rxMoves, func(s, e int, n uint64) { f("rx", rxNames[s], rxEventNames[e], n) })
	c.caller.Each(&callerMoves, func(s, e int, n uint64) { f("caller", callerNames[s], callerEventNames[e], n) })
}
