package ope

import (
	"fmt"
	"math"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// onPacket takes what the other side sends for the operation. An answer that does
// not fit is counted and dropped: an id is a number that anybody may write.
func (t *Txe) onPacket(pkt *peer.Packet) {
	env := t.pools.env
	if !t.busy || pkt.Link != t.link {
		env.Counters.BadID++
		pkt.Free()
		return
	}
	if t.m.State == TxErr && pkt.Untold(t.id) {
		t.pools.env.Sh.Call(t.pools.env.Endpoint, pkt.Arrive())
		return
	}
	t.gotOn()
	var err error
	switch pkt.Type {
	case wire.TypeCTS:
		if err = t.m.CTS(pkt.Granted); err == nil {
			t.note(trail.Window, 1, pkt.Granted, 0)
			t.peerID, t.hasPeer = pkt.RecvID, true
			if t.c.state == CallerEnding {
				t.must(t.c.Step(CallerCTS))
				t.must(t.m.Fail())
				t.giveUp()
			}
		}
	case wire.TypeReceipt:
		err = t.m.Answer(receipt)
	case wire.TypeEOR:
		if err = t.m.Answer(eor); err == nil {
			t.notReading()
		}
	case wire.TypeATOMRSP:
		err = t.onFetched(pkt)
	case wire.TypeReadNACK:
		err = t.onNACK()
	case wire.TypePeerError:
		env.Counters.Aborted++
		t.must(t.m.Fail())
		t.err = firstError(t.err, remoteError(pkt.Errno))
		t.notReading()
	default:
		err = ErrViolation
	}
	answer := pkt.Type
	pkt.Free()
	if err != nil {
		env.Counters.BadLength++
		return
	}
	if answer != wire.TypeCTS && answer != wire.TypeReadNACK {
		t.note(trail.Answer, uint8(answer), 0, 1)
	}
	t.pump(nil)
	t.settle()
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// remoteError is what PEER_ERROR means for an operation. The code is the wire's and
// may be anything.
func remoteError(prov uint32) error {
	e := &peer.RemoteError{Err: peer.ErrAborted, Provider: errno.Provider(min(prov, math.MaxUint16))}
	if e.Provider == errno.ProvRMAAddr {
		e.Err = peer.ErrRefused
	}
	return e
}

// onFetched: what was in the peer's memory before a fetch or compare.
func (t *Txe) onFetched(pkt *peer.Packet) error {
	q := t.q
	if q.Kind != KindAtomic {
		return ErrViolation
	}
	if err := t.m.Answer(atomRsp); err != nil {
		return err
	}
	if t.c.Told() {
		return nil
	}
	if len(pkt.Payload) != len(q.More.Result) {
		t.must(t.m.Fail())
		t.err = fmt.Errorf("%w: %d bytes fetched, not %d", errno.ErrIO, len(pkt.Payload), len(q.More.Result))
		return nil
	}
	copy(q.More.Result, pkt.Payload)
	return nil
}

// onNACK: the receiver cannot read our memory, so what it lacks goes by long-CTS:
// of a message with the same msg_id and an empty request that the receiver finds
// past its order; of a write with a fresh request (§4.7).
func (t *Txe) onNACK() error {
	s := Shape{Proto: LongCTS, Total: t.m.Total, End: t.m.Total, Sent: t.m.Sent, Parts: 1}
	if t.q.Flags&Deliver != 0 {
		s.Proto = DCLongCTS
	}
	if t.m.Proto == LongReadWrite {
		s = t.writeAgain()
	}
	if t.c.state == CallerRevoked {
		t.err = t.outgoing.takenBack() // what it would go from now
	}
	if t.err != nil && t.m.State == TxAwait && t.m.Proto.readBased() {
		// The caller has its buffer back, and no copy was made.
		t.pools.env.Counters.NACKsRecv++
		t.note(trail.Answer, uint8(wire.TypeReadNACK), 0, 1)
		t.must(t.m.Fail())
		switch {
		case !t.spent: // the target has ended the write already
		case t.link.Can(wire.FeaturePeerError):
			t.sendAborted(wire.RefMsgID, t.turn.MsgID)
		default:
			t.lostID(t.err)
		}
		return nil
	}
	if err := t.m.NACK(&s); err != nil {
		return err
	}
	t.pools.env.Counters.NACKsRecv++
	t.note(trail.Answer, uint8(wire.TypeReadNACK), 0, 1)
	t.x.unlend(t.pools)
	t.outgoing.gather()
	t.chose(s.Proto)
	t.nacked = true
	t.rawAddr, t.connID = t.link.HasRawAddr, t.link.HasConnID
	t.notReading()
	return nil
}

// writeAgain is how a write goes whose data the target cannot read. A short one fits
// a packet; long-CTS is for what does not.
func (t *outgoing) writeAgain() Shape {
	t.rawAddr, t.connID = t.link.HasRawAddr, t.link.HasConnID
	q := t.q
	f := Facts{
		Headers: Headers{MTU: t.pools.env.MTU, RawAddr: t.rawAddr, ConnID: t.connID, HasData: q.Flags&HasData != 0},
		Kind:    KindWrite, Total: q.Len(), Remotes: q.remotes(), Deliver: q.Flags&Deliver != 0,
	}
	return f.write(t.pools.policy(t.link))
}
