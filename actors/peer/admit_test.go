package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// TestTurnAgain: a message for a former operation is not taken for one about the next, also
// if the turn was cleared in between.
func TestTurnAgain(t *testing.T) {
	var a Turn
	a.Ask(true, false)
	former := a.use
	a = a.Again()
	require.False(t, a.NoID)
	a.Ask(true, false)
	require.NotEqual(t, former, a.use)
}

// TestDemands: what an operation waits for under orders, and that it is counted as long as it
// is under way.
func TestDemands(t *testing.T) {
	const sends, writes, reads = settings.Sends, settings.Writes, settings.Reads
	for _, x := range []struct {
		name            string
		order           settings.Order
		flying          settings.Kinds // one of each is under way
		begun           int
		kind            settings.Kinds
		fence, follows  bool
		feature         bool // it needs one that the peer lacks
		want            trail.Reason
		counted, waited bool
	}{
		{name: "nothing under way", order: settings.AllOrders, kind: sends, counted: true},
		{name: "a kind that it waits for", order: settings.SendAfterWrite, flying: writes, kind: sends, want: trail.ForArrival, waited: true},
		{name: "a kind that it does not wait for", order: settings.SendAfterWrite, flying: reads, kind: sends, counted: true},
		{name: "the other way round", order: settings.SendAfterWrite, flying: sends, kind: writes, counted: true},
		{name: "a later part", order: settings.SendAfterWrite, flying: writes, kind: sends, follows: true, counted: true},
		{name: "parts of another are to come", begun: 1, kind: sends, want: trail.ForArrival, waited: true},
		{name: "its own parts", begun: 1, kind: sends, follows: true, counted: true},
		{name: "a fence, none before it", fence: true},
		{name: "a feature", feature: true, want: refused},
		{name: "no order", order: settings.AllOrders, flying: writes},
	} {
		t.Run(x.name, func(t *testing.T) {
			env := &Env{Paths: make([]Path, 1)}
			env.Config.Order = x.order
			p := &Peer{env: env, link: &Link{env: env, fences: &fences{begun: x.begun}}}
			p.link.of = p
			for i := range p.link.fences.flying {
				if x.flying&(1<<i) != 0 {
					p.link.fences.flying[i] = 1
				}
			}
			before := p.link.fences.flying
			var turn Turn
			turn.Ask(false, false)
			if x.feature {
				turn.Need(wire.FeatureDeliveryComplete)
			}
			turn.Order(x.kind, x.fence, x.follows)
			require.Equal(t, x.want, p.demands(&turn))
			require.Equal(t, x.counted, turn.counted)
			require.Equal(t, x.waited, p.link.fences.waits)
			if turn.counted {
				require.NotEqual(t, before, p.link.fences.flying)
				turn.Over(p.link)
			}
			require.Equal(t, before, p.link.fences.flying)
		})
	}
}

// TestLine: operations keep their order, a part of one that has begun passes by, and what is
// taken out leaves no gap.
func TestLine(t *testing.T) {
	p := &Peer{env: &Env{}, link: &Link{}}
	var a, b, part Turn
	part.Order(0, false, true)
	p.queueTurn(&a, trail.ForTurn)
	p.queueTurn(&b, trail.ForTurn)
	require.False(t, a.passesBy())
	require.True(t, part.passesBy())
	p.queueTurn(&part, trail.ForRoom)
	require.Equal(t, "room in the send queue", part.Waits())
	for _, want := range []*Turn{&part, &a, &b} {
		require.Same(t, want, p.link.load.line)
		require.True(t, want.listed)
		require.True(t, want.InLine())
		p.nextInLine()
		require.False(t, want.listed)
		require.Nil(t, want.next)
	}
	require.Nil(t, p.link.load.line)
	require.Nil(t, p.lineTail)
}
