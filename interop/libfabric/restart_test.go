//go:build linux

package libfabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

// reusing is e on a device that gives numbers of queue pairs out again at once.
func reusing(e environment) environment {
	e.device = "strict"
	return e
}

// restarts are the sides that come back as another endpoint with the same queue
// pair number, and the first operation then.
var restarts = []struct {
	name    string
	restart role // the side that restarts
	begins  role // the side that sends first then
	told    bool // the other side has the new address before
}{
	{"libfabric restarts, efactor is told and begins", libfabricBegins, efactorBegins, true},
	{"libfabric restarts, efactor is told, libfabric begins", libfabricBegins, libfabricBegins, true},
	{"libfabric restarts and begins", libfabricBegins, libfabricBegins, false},
	{"efactor restarts, libfabric is told and begins", efactorBegins, libfabricBegins, true},
	{"efactor restarts, libfabric is told, efactor begins", efactorBegins, efactorBegins, true},
	{"efactor restarts and begins", efactorBegins, efactorBegins, false},
}

// TestRestart: the other side distinguishes the new endpoint from the old one.
func TestRestart(t *testing.T) {
	need(t)
	for _, e := range []environment{reusing(settings[0]), reusing(settings[1].shuffled(5))} {
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			for _, r := range restarts {
				ok := t.Run(r.name, func(t *testing.T) {
					w.warmUp(t)
					for range 2 {
						w.restart(t, r.restart, r.begins, r.told)
						w.thereAndBack(t)
					}
				})
				require.True(t, ok, "the rest would fail too")
			}
		})
	}
}

// restart closes one side's endpoint and opens another one, and has them talk.
func (w *world) restart(t *testing.T, who, begins role, told bool) {
	p := w.play(t, begins)
	defer p.cancel()
	gone, stays := w.own, party.Party(w.lf)
	if who == libfabricBegins {
		gone, stays = stays, gone
	}
	before := gone.Address()
	require.NoError(t, gone.Close(p.ctx))
	require.NoError(t, gone.Open(p.ctx))
	after := gone.Address()
	require.Equal(t, wire.RawAddr(before).QPN(), wire.RawAddr(after).QPN(), "number of the queue pair")
	require.NotEqual(t, before, after)

	toStays, err := gone.Insert(p.ctx, stays.Address())
	require.NoError(t, err)
	toGone := party.NoPeer
	insert := func() {
		toGone, err = stays.Insert(p.ctx, after)
		require.NoError(t, err)
		w.toOwn, w.toLF = toGone, toStays
		if who == libfabricBegins {
			w.toOwn, w.toLF = toStays, toGone
		}
	}
	if told {
		insert()
		q := w.play(t, begins)
		defer q.cancel()
		q.exchange(party.Op{Size: 200}, party.Op{})
		return
	}
	// It is heard of by its first message alone: libfabric 1.17 inserts it by itself.
	p.toB = toStays
	s := p.sending(party.Op{Size: 200})
	got := p.start(p.b, p.receiving(s, party.Op{}))
	p.done(p.start(p.a, s))
	out := p.done(got)
	require.Equal(t, 200, out.N)
	require.NoError(t, out.Content.Whole(s.Seed, s.Size))
	insert()
}

// TestPendingAtRestart: efactor's operations in progress with the endpoint that is gone
// end, with an error, when its successor sends.
func TestPendingAtRestart(t *testing.T) {
	need(t)
	w := newWorld(t, reusing(settings[0]))
	defer w.end(t)
	w.warmUp(t)
	p := w.play(t, efactorBegins)
	defer p.cancel()
	pending := []*party.Pending{
		p.start(p.a, p.sending(party.Op{Size: 90000, Tagged: true, Tag: 1})),                      // there is no receive for it
		p.start(p.a, p.sending(party.Op{Size: 10, Tagged: true, Tag: 2, Level: party.Delivered})), // nor it
		p.start(p.a, party.Op{Kind: party.Recv, Tagged: true, Tag: 3, Peer: p.toB, Directed: true, Size: 10}),
	}
	p.mark()
	w.restart(t, libfabricBegins, libfabricBegins, false)
	for _, o := range pending {
		out := p.ended(o)
		require.NotZero(t, out.Errno, "%v", o.Op)
	}
	w.thereAndBack(t)
}

// TestDeath: efactor's operations in progress with a libfabric that is killed end
// with an error, in time.
func TestDeath(t *testing.T) {
	need(t)
	for _, e := range []environment{settings[0], settings[1]} {
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			w.warmUp(t)
			p := w.play(t, efactorBegins)
			defer p.cancel()
			pending := []*party.Pending{
				p.start(p.a, p.sending(party.Op{Size: 300000, Tagged: true, Tag: 1, Registered: true})),
				p.start(p.a, p.sending(party.Op{Size: 10, Tagged: true, Tag: 2, Level: party.Delivered})),
				p.start(p.a, party.Op{Kind: party.Recv, Tagged: true, Tag: 3, Peer: p.toB, Directed: true, Size: 10}),
			}
			p.mark()
			w.lf.Kill()
			for _, o := range pending {
				out := p.ended(o)
				require.NotZero(t, out.Errno, "%v", o.Op)
			}
			_ = w.stop() // its error says that libfabric is gone
		})
	}
}
