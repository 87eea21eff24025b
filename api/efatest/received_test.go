package efatest_test

import (
	"errors"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// received takes the outcome of a receive.
func (n *node) received(in *incoming, m *efa.Message, err error) {
	r, rc := n.run, in.r
	if in.ended {
		r.fail("%v ended twice", &rc.Recv)
		return
	}
	in.ended = true
	rc.Ended = r.tick()
	r.w.Logf("received %d B from %v tag %#x: %v", m.N, m.Raw(), m.Tag, err)
	defer n.give(in.mem)
	lost := 0
	if cut := new(efa.OpError); errors.Is(err, efa.ErrTruncated) && errors.As(err, &cut) {
		r.stats["recv truncated"]++
		if m.N == 0 { // a blocking call
			m.N = cut.N
		}
		lost, err = cut.Lost, nil
		if m.N != cut.N || lost == 0 || m.N != len(in.buf) {
			r.fail("%v: cut to %d of %d, %d lost", &rc.Recv, m.N, len(in.buf), lost)
		}
	}
	if err != nil {
		n.unreceived(in, err)
		return
	}
	r.stats["recv ok"]++
	n.verify(in, m, lost)
}

// verify compares a received message with the one sent.
func (n *node) verify(in *incoming, m *efa.Message, lost int) {
	r, rc := n.run, in.r
	g := n.got(m, m.N+lost)
	rc.Got = g
	if m.N >= 4 {
		g.ID = model.ID(in.buf)
	}
	if p := rc.peeked; p != nil && (p.From != g.From || p.Tag != g.Tag || p.Len != g.Len || p.HasData != g.HasData) {
		r.fail("%v got %+v, a peek before had seen %+v", &rc.Recv, *g, *p)
	}
	if g.From < 0 {
		r.fail("%v got a message of %v, who is nobody", &rc.Recv, m.Raw())
		return
	}
	if m.From == efa.NoAddr {
		r.stats["recv unlisted"]++
	} else if h, ok := n.handles[g.From]; ok && h != m.From && n.removed == nil {
		r.fail("%v is from %d, whose handle is %d, and says %d", &rc.Recv, g.From, h, m.From)
	}
	if g.ID >= 0 && g.ID < len(r.msgs) {
		r.landed(r.msgs[g.ID].after, &r.msgs[g.ID].Msg)
	}
	if g.ID >= 0 {
		if r.ways != nil {
			r.ways.received[g.ID] = g.Len
		}
		if at := model.Differs(in.buf[:m.N], g.ID, g.Len); at >= 0 {
			r.fail("%v: byte %d of message %d from %d (%d of %d B) is wrong", &rc.Recv, at, g.ID, g.From, m.N, g.Len)
		}
	}
	if !isPoison(in.buf[m.N:]) {
		r.fail("%v: something was written behind the message's %d B", &rc.Recv, m.N)
	}
}

// got describes a message of n bytes, as far as its envelope goes.
func (n *node) got(m *efa.Message, length int) *model.Got {
	g := &model.Got{ID: -1, From: n.run.whois(m.Raw()), Tagged: m.Tagged, HasData: m.HasData, Len: length}
	if m.Tagged {
		g.Tag = m.Tag
	}
	if m.HasData {
		g.Data = m.Data
	}
	switch {
	case m.HasData:
		g.ID = int(uint32(m.Data))
	case m.Tagged && m.Tag&tagNamed != 0:
		g.ID = int(uint32(m.Tag))
	}
	return g
}

// unreceived judges a receive that failed.
func (n *node) unreceived(in *incoming, err error) {
	r, rc := n.run, in.r
	switch {
	case errors.Is(err, efa.ErrCanceled) && rc.Canceled != 0 && rc.mem != doomed && !errors.Is(err, efa.ErrPeerAborted):
		r.stats["recv canceled"]++
		return
	case rc.mem == doomed && errors.Is(err, efa.ErrCanceled):
		r.stats["recv canceled"]++
	case n.removed != nil && n.wasRemoved(n.removed.id, err):
	case errors.Is(err, efa.ErrPeerAborted) && r.p.flavor != calm:
		r.stats["recv aborted"]++
	case r.p.broken && n.broke(err):
		r.stats["recv broken"]++
	case badlyRead(err) && r.p.flavor != calm: // the sender closed its memory
		r.stats["recv aborted"]++
	case n.closed && errors.Is(err, efa.ErrClosed):
	case errors.Is(err, efa.ErrPeerFailed) && n.anyDoomed():
	default:
		r.fail("%v: %w", &rc.Recv, err)
	}
	r.stats["recv failed"]++
	rc.Canceled = rc.Post // it may have thrown a message away any time
	if rc.Source != model.Any {
		n.inTime(in.began, rc.Source)
	}
}
