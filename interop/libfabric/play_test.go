//go:build linux

package libfabric_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// play is a scenario under way: a begins, b is the other side.
type play struct {
	*testing.T
	ctx      context.Context
	cancel   context.CancelFunc
	w        *world
	env      environment
	begins   role // a's
	a, b     party.Party
	toB, toA party.Peer
	seed     int
	late     bool // the message at hand was unexpected
}

// play casts a.
func (w *world) play(t *testing.T, begins role) *play {
	p := &play{T: t, w: w, env: w.env, begins: begins, a: w.lf, b: w.own, toB: w.toOwn, toA: w.toLF, seed: 17}
	if begins == efactorBegins {
		p.a, p.b, p.toB, p.toA = p.b, p.a, p.toA, p.toB
	}
	p.ctx, p.cancel = context.WithTimeout(context.Background(), scenarioTime)
	return p
}

// starts begins operations of x that must be accepted.
func (p *play) start(x party.Party, op party.Op) *party.Pending {
	p.Helper()
	started, err := x.Start(p.ctx, op)
	require.NoError(p, err, "%s: %v", x.Name(), op)
	return started
}

// ended waits for an operation.
func (p *play) ended(o *party.Pending) party.Outcome {
	p.Helper()
	out, err := o.Wait(p.ctx)
	require.NoError(p, err, "%v", o.Op)
	return out
}

// done waits for an operation that must succeed.
func (p *play) done(o *party.Pending) party.Outcome {
	p.Helper()
	out := p.ended(o)
	require.NoError(p, out.Err(), "%v", o.Op)
	return out
}

// fails waits for an operation that must end with libfabric's number.
func (p *play) fails(o *party.Pending, errno int) party.Outcome {
	p.Helper()
	out := p.ended(o)
	require.Equal(p, errno, out.Errno, "%v: %s", o.Op, out.Text)
	return out
}

// next is another seed of data.
func (p *play) next() int {
	p.seed += 3
	return p.seed
}

// sending and receiving complete the two sides of a message.
func (p *play) sending(s party.Op) party.Op {
	s.Kind, s.Peer = party.Send, p.toB
	if s.Seed == 0 {
		s.Seed = p.next()
	}
	return s
}

func (p *play) receiving(s, r party.Op) party.Op {
	r.Kind, r.Tagged = party.Recv, s.Tagged
	if r.Directed {
		r.Peer = p.toA
	}
	if r.Tag == 0 {
		r.Tag = s.Tag
	}
	if r.Size == 0 {
		r.Size = s.Size + 50
	}
	return r
}

// exchange has a message s received by r, which is posted before.
func (p *play) exchange(s, r party.Op) {
	p.Helper()
	s = p.sending(s)
	got := p.start(p.b, p.receiving(s, r))
	p.done(p.start(p.a, s))
	p.received(s, p.done(got))
}

// unexpected has a message s received by r, which is posted when s has begun to arrive.
func (p *play) unexpected(s, r party.Op) {
	p.Helper()
	s = p.sending(s)
	sent := p.start(p.a, s)
	p.mark()
	got := p.start(p.b, p.receiving(s, r))
	p.done(sent)
	p.late = true
	defer func() { p.late = false }()
	p.received(s, p.done(got))
}

const markTag = 0xfeed

// mark returns when all that a has sent before has begun to arrive at b: messages
// have an order.
func (p *play) mark() {
	p.Helper()
	s := p.sending(party.Op{Size: 5, Tagged: true, Tag: markTag})
	got := p.start(p.b, p.receiving(s, party.Op{}))
	p.done(p.start(p.a, s))
	p.received(s, p.done(got))
}

// received checks what came of s.
func (p *play) received(s party.Op, out party.Outcome) {
	p.Helper()
	require.Equal(p, s.Size, out.N, "bytes")
	p.arrived(s, out)
	require.NoError(p, out.Content.Whole(s.Seed, s.Size), "%v", s)
}

// arrived checks all but the bytes.
func (p *play) arrived(s party.Op, out party.Outcome) {
	p.Helper()
	require.Equal(p, p.toA, out.From, "sender")
	if !p.late || p.b == party.Party(p.w.node) {
		require.Equal(p, s.HasData, out.HasData, "with data")
	} // 1.17 gives the data of unexpected messages, without saying that there is some
	if s.HasData {
		require.Equal(p, s.Data, out.Data, "data")
	}
	if s.Tagged {
		require.Equal(p, s.Tag, out.Tag, "tag")
	}
}

// region is memory of x that is closed when the scenario ends, or before that.
func (p *play) region(x party.Party, size int, a party.Access) (r party.Region, end func()) {
	p.Helper()
	r, err := x.Region(p.ctx, size, a)
	require.NoError(p, err, "%s: region of %d bytes", x.Name(), size)
	end = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if err := r.Close(ctx); !p.Failed() {
			require.NoError(p, err, "close a region of %s", x.Name())
		}
	})
	p.Cleanup(end)
	return r, end
}
