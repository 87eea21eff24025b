package ope

import (
	"errors"
	"fmt"
)

// TxState is where a message being sent stands (§3.2). The names are libfabric's.
//
//	           posted           CTS                 posted
//	TXE_REQ -----------> WAIT --------> OPE_SEND -----------> WAIT ...
//	   |  all of it is out                  | all of it is out
//	   +-----------------> TXE_DRAIN <------+
//	                           | last ack
//	                           v
//	  any --fail--> OPE_ERR  TXE_DONE
type TxState uint8

// The states.
const (
	TxReq   TxState = iota // REQ packets are to be posted
	TxWait                 // REQ or window is out, CTS is to come
	TxSend                 // CTSDATA may be posted
	TxDrain                // everything is out, not everything acknowledged
	TxDone
	TxErr
	numTxStates = iota
)

var txNames = [numTxStates]string{"TXE_REQ", "TXE_WAIT", "OPE_SEND", "TXE_DRAIN", "TXE_DONE", "OPE_ERR"}

func (s TxState) String() string { return txNames[s] }

// TxEvent is what can happen to it.
type TxEvent uint8

// The events.
const (
	TxPosted    TxEvent = iota // a packet went out, more may follow at once
	TxPaused                   // a packet went out, the next needs a CTS
	TxPostedAll                // the last packet went out
	TxCTS                      // the receiver grants a window
	TxAcked                    // a packet arrived, others are under way or to come
	TxAckedAll                 // the last packet arrived
	TxFail
	numTxEvents = iota
)

var txEventNames = [numTxEvents]string{"posted", "paused", "posted-all", "cts", "acked", "acked-all", "fail"}

func (e TxEvent) String() string { return txEventNames[e] }

// txTable is the whole machine: a pair with no entry is a violation.
var txTable = [numTxStates][numTxEvents]struct {
	next TxState
	ok   bool
}{
	TxReq:   {TxPosted: {TxReq, true}, TxPaused: {TxWait, true}, TxPostedAll: {TxDrain, true}, TxAcked: {TxReq, true}, TxFail: {TxErr, true}},
	TxWait:  {TxCTS: {TxSend, true}, TxAcked: {TxWait, true}, TxFail: {TxErr, true}},
	TxSend:  {TxPosted: {TxSend, true}, TxPaused: {TxWait, true}, TxPostedAll: {TxDrain, true}, TxAcked: {TxSend, true}, TxFail: {TxErr, true}},
	TxDrain: {TxAcked: {TxDrain, true}, TxAckedAll: {TxDone, true}, TxFail: {TxErr, true}},
	TxErr:   {TxAcked: {TxErr, true}, TxAckedAll: {TxErr, true}, TxCTS: {TxErr, true}, TxFail: {TxErr, true}},
}

// ErrViolation is wrapped by errors about events that a state does not allow.
var ErrViolation = errors.New("protocol violation")

// Tx is the machine of one message being sent: pure, the txe carries out what it
// allows.
type Tx struct {
	State  TxState
	Proto  Proto
	seg    uint32 // bytes of a REQ packet
	Total  uint64 // bytes of the message
	Sent   uint64 // bytes handed to the device
	Acked  uint64 // bytes that arrived
	Window uint64 // bytes that the receiver still grants
	Flying int32  // packets with the device
	left   int32  // REQ packets to post

	steps *Steps // counts what happens; may be nil
}

// Segment is a packet that may be posted now.
type Segment struct {
	Off, Len uint64
	Data     bool // CTSDATA; else a REQ packet
}

// Start arms the machine. room is what one REQ packet can carry, seg and n how a
// medium message is cut.
func (t *Tx) Start(proto Proto, total uint64, room, seg, n int) {
	*t = Tx{Proto: proto, Total: total, steps: t.steps}
	switch proto {
	case Medium:
		t.seg, t.left = uint32(seg), int32(n)
	case LongCTS:
		t.seg, t.left = uint32(room), 1
	default:
		t.seg, t.left = uint32(total), 1 // fits a packet
	}
}

// Next is the packet to post next, if one may be posted. maxData is what a
// CTSDATA packet carries.
func (t *Tx) Next(maxData int) (Segment, bool) {
	rest := t.Total - t.Sent
	switch t.State {
	case TxReq:
		if t.left == 0 {
			return Segment{}, false // its turn has not come
		}
		n := min(uint64(t.seg), rest)
		if t.Proto == Medium && t.left == 1 {
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
	if s.Data {
		t.Window -= s.Len
	} else {
		t.left--
	}
	switch {
	case t.Sent == t.Total && (s.Data || t.left == 0):
		return t.step(TxPostedAll)
	case s.Data && t.Window == 0, !s.Data && t.left == 0:
		return t.step(TxPaused)
	default:
		return t.step(TxPosted)
	}
}

// CTS opens a window of n bytes. The peer may only grant what is left, and only
// when the window before is used up (§3.2); anything else is its fault.
func (t *Tx) CTS(n uint64) error {
	if t.Proto != LongCTS || n == 0 || n > t.Total-t.Sent {
		return fmt.Errorf("%w: CTS of %d bytes for a message with %d left", ErrViolation, n, t.Total-t.Sent)
	}
	if err := t.step(TxCTS); err != nil {
		return err
	}
	t.Window = n
	return nil
}

// Ack counts a packet of n bytes that arrived.
func (t *Tx) Ack(n int) error {
	t.Acked += uint64(n)
	t.Flying--
	if t.Flying == 0 && (t.State == TxDrain || t.State == TxErr) {
		return t.step(TxAckedAll)
	}
	return t.step(TxAcked)
}

// Lost counts a packet that will never arrive, and fails the message.
func (t *Tx) Lost() {
	t.Flying--
	t.Fail()
}

// Fail ends the message without success.
func (t *Tx) Fail() {
	if t.State != TxDone {
		_ = t.step(TxFail) // from every state but TXE_DONE
	}
}

func (t *Tx) step(e TxEvent) error {
	n := txTable[t.State][e]
	if !n.ok {
		return fmt.Errorf("%w: %s in state %s", ErrViolation, e, t.State)
	}
	if t.steps != nil {
		t.steps.tx[t.State][e]++
	}
	t.State = n.next
	return nil
}
