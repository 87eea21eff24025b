//go:build linux

package libfabric_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// firsts are what two endpoints may begin with.
var firsts = []struct {
	name string
	play func(*play)
}{
	{"eager", func(p *play) { p.exchange(party.Op{Size: 100}, party.Op{}) }},
	{"nothing", func(p *play) { p.exchange(party.Op{}, party.Op{}) }},
	{"medium", func(p *play) { p.exchange(party.Op{Size: 40000, Tagged: true}, party.Op{}) }},
	{"long", func(p *play) { p.exchange(party.Op{Size: 90000}, party.Op{}) }},
	{"longer, registered", func(p *play) { p.exchange(party.Op{Size: 500000, Registered: true}, party.Op{Registered: true}) }},
	{"delivered", func(p *play) { p.exchange(party.Op{Size: 100, Level: party.Delivered}, party.Op{}) }},
	{"write", func(p *play) { p.reach(party.Op{Kind: party.Write, Size: 3000, Level: party.Delivered}) }},
	{"long write", func(p *play) { p.reach(party.Op{Kind: party.Write, Size: 300000, Registered: true}) }},
	{"read", func(p *play) { p.reach(party.Op{Kind: party.Read, Size: 3000}) }},
	{"long read", func(p *play) { p.reach(party.Op{Kind: party.Read, Size: 300000}) }},
	{"atomic", func(p *play) { p.atomics(party.Op{Kind: party.Atomic, Level: party.Delivered}, atomicCases[:1]) }},
	{"fetch", func(p *play) { p.atomics(party.Op{Kind: party.Fetch}, atomicCases[:1]) }},
	{"compare", func(p *play) { p.atomics(party.Op{Kind: party.Compare}, compareCases[:1]) }},
	{"many", func(p *play) { many(p, party.Op{Size: 5000}) }},
}

// reopen makes new endpoints in both processes, which know nothing of each other.
func (w *world) reopen(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTime)
	defer cancel()
	for _, x := range []party.Party{w.lf, w.own} {
		require.NoError(t, x.Close(ctx), x.Name())
		require.NoError(t, x.Open(ctx), x.Name())
	}
}

// contactEnvironments are where first contact is made.
func contactEnvironments() []environment {
	if brief() {
		return []environment{settings[1].shuffled(3)}
	}
	return []environment{settings[0].shuffled(3), settings[1], settings[1].shuffled(4)}
}

// TestFirstContact begins with each kind of operation: HANDSHAKE comes when it comes.
func TestFirstContact(t *testing.T) {
	need(t)
	for _, e := range contactEnvironments() {
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			for _, f := range firsts {
				for _, begins := range []role{libfabricBegins, efactorBegins} {
					ok := t.Run(fmt.Sprintf("%s, %v", f.name, begins), func(t *testing.T) {
						w.reopen(t)
						ctx, cancel := context.WithTimeout(context.Background(), scenarioTime)
						defer cancel()
						w.introduce(t, ctx)
						p := w.play(t, begins)
						defer p.cancel()
						f.play(p)
						w.thereAndBack(t)
					})
					require.True(t, ok, "the rest would fail too")
				}
			}
		})
	}
}

// thereAndBack: both directions work afterwards.
func (w *world) thereAndBack(t *testing.T) {
	t.Helper()
	for _, begins := range []role{libfabricBegins, efactorBegins} {
		p := w.play(t, begins)
		p.exchange(party.Op{Size: 100}, party.Op{})
		p.exchange(party.Op{Size: 20000, Level: party.Delivered}, party.Op{})
		p.cancel()
	}
}

// TestBothBegin: both send before either has heard of the other.
func TestBothBegin(t *testing.T) {
	need(t)
	for _, e := range contactEnvironments() {
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			for _, op := range []party.Op{
				{Size: 0},
				{Size: 50000},
				{Size: 95000, Tagged: true, Tag: 1},
				{Size: 400000, Registered: true},
				{Size: 3000, Level: party.Delivered},
			} {
				ok := t.Run(op.String(), func(t *testing.T) {
					w.reopen(t)
					ctx, cancel := context.WithTimeout(context.Background(), scenarioTime)
					defer cancel()
					w.introduce(t, ctx)
					both := [2]*play{w.play(t, libfabricBegins), w.play(t, efactorBegins)}
					var ops [2]party.Op
					var sends, receives [2]*party.Pending
					for i, p := range both {
						defer p.cancel()
						ops[i] = p.sending(op)
						receives[i] = p.start(p.b, p.receiving(ops[i], party.Op{}))
					}
					for i, p := range both {
						sends[i] = p.start(p.a, ops[i])
					}
					for i, p := range both {
						p.done(sends[i])
						p.received(ops[i], p.done(receives[i]))
					}
					w.thereAndBack(t)
				})
				require.True(t, ok, "the rest would fail too")
			}
		})
	}
}

// TestStranger: a message of a sender that is in no address vector arrives, and can
// be answered once its sender was inserted.
func TestStranger(t *testing.T) {
	need(t)
	for _, e := range contactEnvironments() {
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			for _, f := range []party.Op{
				{Size: 10},
				{Size: 30000, Tagged: true},
				{Size: 98000},
				{Size: 300000, Registered: true},
				{Size: 10, Level: party.Delivered},
			} {
				for _, begins := range []role{libfabricBegins, efactorBegins} {
					ok := t.Run(fmt.Sprintf("%v, %v", f, begins), func(t *testing.T) { w.stranger(t, f, begins) })
					require.True(t, ok, "the rest would fail too")
				}
			}
		})
	}
}

func (w *world) stranger(t *testing.T, op party.Op, begins role) {
	w.reopen(t)
	p := w.play(t, begins)
	defer p.cancel()
	var err error
	p.toB, err = p.a.Insert(p.ctx, p.b.Address())
	require.NoError(t, err)
	if p.b == party.Party(w.node) {
		p.toA = party.NoPeer // libfabric 1.17 inserts strangers by itself, and gives them the handle
	} else {
		p.toA = 0
	}
	for range 2 {
		p.exchange(op, party.Op{})
	}
	// One more waits to be received once its sender is known.
	late := p.sending(op)
	sent := p.start(p.a, late)
	p.mark()
	p.toA, err = p.b.Insert(p.ctx, p.a.Address())
	require.NoError(t, err)
	got := p.start(p.b, p.receiving(late, party.Op{Directed: true}))
	p.done(sent)
	p.received(late, p.done(got))
	w.toOwn, w.toLF = p.toB, p.toA
	if begins == efactorBegins {
		w.toOwn, w.toLF = p.toA, p.toB
	}
	w.thereAndBack(t)
}
