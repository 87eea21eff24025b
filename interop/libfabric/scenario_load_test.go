//go:build linux

package libfabric_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// loadScenarios are about a receiver that has more to take than it can.
func loadScenarios() []scenario {
	return []scenario{
		{name: "a thousand unexpected messages", proves: []string{"unexpected messages"}, where: everywhere, play: func(p *play) {
			p.pile(1000, 300)
			p.pile(40, 30000)
		}},
		{
			name: "a receiver that pauses", proves: []string{"RNR"}, where: everywhere,
			gaps: []gap{{begins: efactorBegins, why: "efactor makes progress by itself, and does not pause"}}, play: paused,
		},
	}
}

// pile sends n messages before any is received.
func (p *play) pile(n, size int) {
	var sends []*party.Pending
	var ops []party.Op
	for i := range n {
		op := p.sending(party.Op{Size: size, Tagged: i%2 == 0, Tag: uint64(i)})
		ops, sends = append(ops, op), append(sends, p.start(p.a, op))
	}
	p.mark()
	for i, op := range ops {
		p.received(op, p.done(p.start(p.b, p.receiving(op, party.Op{}))))
		p.done(sends[i])
	}
}

// paused has more sent than libfabric has receives posted while it does nothing.
func paused(p *play) {
	const n, size = 5000, 100
	if p.env.reference {
		p.Skip("it is libfabric's turn to begin")
	}
	before := p.rnr()
	for try := 0; p.rnr() == before; try++ { // a busy machine may post too late
		require.Less(p, try, 10, "no packet met a receiver that was not ready")
		pausedOnce(p, n, size)
	}
}

func pausedOnce(p *play, n, size int) {
	go func() { _ = p.w.lf.Pause(p.ctx, 700*time.Millisecond) }()
	var sends []*party.Pending
	var ops []party.Op
	for range n {
		op := p.sending(party.Op{Size: size})
		started, err := p.a.Start(p.ctx, op)
		for err != nil { // the number of operations is limited
			require.NotEmpty(p, sends)
			p.done(sends[len(sends)-1])
			started, err = p.a.Start(p.ctx, op)
		}
		ops, sends = append(ops, op), append(sends, started)
	}
	for i, op := range ops {
		p.received(op, p.done(p.start(p.b, p.receiving(op, party.Op{}))))
		p.done(sends[i])
	}
}

// rnr is how often efactor's packets have met a receiver that was not ready.
func (p *play) rnr() uint64 {
	stats, err := p.w.node.Endpoint().Stats(p.ctx)
	require.NoError(p, err)
	return stats["Queue.RNR"]
}
