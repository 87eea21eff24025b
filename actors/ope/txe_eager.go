package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// sendEager posts the one packet of a message that fits it, in the entry that was granted. It goes out
// even if back-off has begun since, or messages would leave in another order than their msg_ids'.
// If it has arrived when the device took it, the operation is over.
func sendEager(t *Txe, p *device.Pke) {
	env, q, l := t.pools.env, t.q, t.link
	p.To(l.AH, l.QPN, l.QKey)
	p.Turn, p.Watch = t.turn.MsgID, l.Backoff
	h := p.Header()
	if !t.rawAddr && q.Flags&HasData == 0 {
		n := wire.PutEager((*[wire.EagerRoom]byte)(h[:wire.EagerRoom]), t.turn.MsgID, q.Flags&Tagged != 0, q.Tag, t.connID, env.ConnID)
		h = h[:n]
	} else {
		h = eagerRTM(&t.outgoing, h)
	}
	p.Fill(h, q.Buf)
	if t.gathers != 0 {
		gatherFrom(&t.outgoing, p)
	}
	detachBorrowed(&t.outgoing, p, false)
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
		env.Q.Free(p)
		l.Reached()
		if !t.m.Whole(true) {
			t.violated(noEdge(TxDelivered, t.m.State))
			return
		}
		if t.turn.Span != 0 {
			t.leave(trail.Acked, 0, t.m.Acked, 0)
		}
		t.settle()
		return
	}
	// Who hears of the end of the packet is of use only now that there will be one.
	p.Owner, p.Peer, p.Span, p.Off = t.ref, l.Peer, t.turn.Span, 0
	detachBorrowed(&t.outgoing, p, true)
	l.Posted()
	if !t.m.Whole(false) {
		t.violated(noEdge(TxPostedAll, t.m.State))
	}
}

// eagerRTM builds the header of an eager message with other optional headers than the connid.
func eagerRTM(t *outgoing, b []byte) []byte {
	q := t.q
	h := wire.EagerRTM{MsgID: t.turn.MsgID, Tagged: q.Flags&Tagged != 0, Tag: q.Tag}
	t.options(&h.Options)
	return h.Append(b)
}

// detachBorrowed gives the caller its buffer back although the packet may have to be sent again, if
// the buffer is borrowed: before the packet is posted, or after it if the device copies at post.
func detachBorrowed(t *outgoing, p *device.Pke, posted bool) {
	if t.q.Flags&Borrowed != 0 && t.pools.Info.CopiesAtPost == posted {
		p.Detach()
	}
}
