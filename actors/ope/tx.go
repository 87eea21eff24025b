package ope

import (
	"errors"
	"fmt"
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
var txTable = [maxStates][maxEvents]txNext{
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

var txMoves = movesOf(func(s, e int) (uint8, bool) { n := txTable[s][e]; return uint8(n.next), n.ok })

// ErrViolation is wrapped by errors about events that a state does not allow.
var ErrViolation = errors.New("protocol violation")

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
		return noEdge(e, t.State)
	}
	return nil
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
		return noEdge(e, t.State)
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
		return noEdge(e, t.State)
	}
	return nil
}

// move is step, and reports whether the table has an edge.
func (t *Tx) move(e TxEvent) bool {
	i := entryOf(uint8(t.State), uint8(e))
	n := txMoves[i]
	if n == noMove {
		return false
	}
	if t.State = TxState(n); t.steps != nil {
		t.steps.tx[i]++
	}
	return true
}
