package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// onGrant: it is this operation's turn. Choose the subprotocol and post what may
// go.
func (t *Txe) onGrant(p *device.Pke) {
	t.spent = !t.turn.NoID
	if t.m.State == TxErr { // its peer or the endpoint ended meanwhile
		t.pools.env.Q.Free(p)
		t.giveUp()
		t.settle()
		return
	}
	q, l := t.q, t.link
	t.rawAddr, t.connID = l.HasRawAddr, l.HasConnID
	n := len(q.Buf)
	if q.Kind == KindSend && q.Flags&(Deliver|Pieced) == 0 && n+eagerHeaders(q.Flags) <= int(l.Room) && !t.pools.mayRead(l, n) {
		// The common case, for which Choose has the same answer: a message that fits one packet.
		t.m.StartEager(n)
		t.chose(Eager)
		if n >= t.pools.minGather {
			t.outgoing.gather()
		}
		t.sendEager(p)
		return
	}
	if err := t.choose(); err != nil {
		t.pools.env.Q.Free(p)
		t.fail(err)
		return
	}
	if t.m.Proto == Eager {
		t.sendEager(p)
		return
	}
	t.pump(p)
	t.settle()
}

// chose notes the subprotocol, and what both sides know the operation by.
func (t *outgoing) chose(s Proto) {
	t.pools.Mix.Chosen[s]++
	if t.turn.Span != 0 {
		t.noteChosen(s)
	}
}

// eagerHeaders is what an eager message's headers take up that depend on the request.
func eagerHeaders(f Flags) int {
	n := wire.EagerMsgRTMLen
	if f&Tagged != 0 {
		n = wire.EagerTagRTMLen
	}
	if f&HasData != 0 {
		n += wire.CQDataHdrLen
	}
	return n
}

// mayRead reports whether a message of n bytes to the peer might go read-based.
func (p *Pools) mayRead(l *peer.Link, n int) bool { return n >= p.minRead && p.longEnough(l, n) }

// sendEager posts the one packet of a message that fits it, in the entry that was granted. It goes out
// even if back-off has begun since, or messages would leave in another order than their msg_ids'.
// If it has arrived when the device took it, the operation is over.
func (t *Txe) sendEager(p *device.Pke) {
	env, q, l := t.pools.env, t.q, t.link
	p.To(l.AH, l.QPN, l.QKey)
	p.Turn, p.Watch = t.turn.MsgID, l.Backoff
	h := p.Header()
	if !t.rawAddr && q.Flags&HasData == 0 {
		n := wire.PutEager((*[wire.EagerRoom]byte)(h[:wire.EagerRoom]), t.turn.MsgID, q.Flags&Tagged != 0, q.Tag, t.connID, env.ConnID)
		h = h[:n]
	} else {
		h = t.outgoing.eagerRTM(h)
	}
	p.Fill(h, q.Buf)
	if t.gathers != 0 {
		t.outgoing.gatherFrom(p)
	}
	if q.Flags&Borrowed != 0 {
		t.pools.detachBorrowed(p, false)
	}
	over, err := env.Q.PostPrompt(p, true)
	if err != nil {
		t.fail(fmt.Errorf("%s: %w", Eager, err))
		env.Q.Free(p)
		return
	}
	env.Counters.PacketsSent[p.Type()]++
	if t.turn.Span != 0 {
		t.leave(trail.Sent, p.Type(), t.m.Total, 1)
	}
	if over {
		env.Q.FreePrompt(p)
		l.Reached()
		if !t.m.Delivered() {
			t.violated(noEdge(TxDelivered, t.m.State))
			return
		}
		t.delivered()
		return
	}
	// Who hears of the end of the packet is of use only now that there will be one.
	p.Owner, p.Peer, p.Span, p.Off = t.ref, l.Peer, t.turn.Span, 0
	if q.Flags&Borrowed != 0 {
		t.pools.detachBorrowed(p, true)
	}
	l.Posted()
	if !t.m.Whole() {
		t.violated(noEdge(TxPostedAll, t.m.State))
	}
}

// StartEager is Start for a message of n bytes in one packet, of a machine that is as Reset
// leaves it.
func (t *Tx) StartEager(n int) {
	t.Proto, t.seg, t.left = Eager, uint32(n), 1
	t.Total, t.end = uint64(n), uint64(n)
}

// Whole is Posted for a message that went out in one packet, which nobody answers. It reports
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

// eagerRTM builds the header of an eager message with other optional headers than the connid.
func (t *outgoing) eagerRTM(b []byte) []byte {
	q := t.q
	h := wire.EagerRTM{MsgID: t.turn.MsgID, Tagged: q.Flags&Tagged != 0, Tag: q.Tag}
	t.options(&h.Options)
	return h.Append(b)
}

// detachBorrowed gives the caller its buffer back although the packet may have to be sent again, of
// an operation whose buffer is borrowed: before the packet is posted, or after it if the device copies
// at post.
func (p *Pools) detachBorrowed(pke *device.Pke, posted bool) {
	if p.Info.CopiesAtPost == posted {
		pke.Detach()
	}
}
