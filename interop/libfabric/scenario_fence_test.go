//go:build linux

package libfabric_test

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// fences: writes of all sizes, and then a fenced message: when that is received all bytes are
// there. A fenced read that comes at once sees them, too.
func fences(p *play) {
	sizes := []int{1, 100, 4000, 20_000, 100_000}
	for _, level := range []party.Level{party.Default, party.Delivered} {
		total := 0
		for _, n := range sizes {
			total += 4 * n
		}
		mem, end := p.region(p.b, total, party.AccessRemoteRead|party.AccessRemoteWrite)
		var ops []party.Op
		var writes []*party.Pending
		at := 0
		for i := range 4 * len(sizes) {
			n := sizes[i%len(sizes)]
			op := party.Op{
				Kind: party.Write, Peer: p.toB, At: mem.Remote().Slice(at, n), Size: n, Seed: p.next(), Level: level,
				Registered: i%2 == 0,
			}
			at += n
			ops, writes = append(ops, op), append(writes, p.start(p.a, op))
		}
		s := p.sending(party.Op{Size: 10, Tagged: true, Tag: 6, Fence: true})
		got := p.start(p.b, p.receiving(s, party.Op{}))
		sent := p.start(p.a, s)
		p.received(s, p.done(got))
		p.done(sent)
		at = 0
		for _, op := range ops {
			c, err := mem.Check(p.ctx, at, op.Size)
			require.NoError(p, err)
			require.NoError(p, c.Whole(op.Seed, op.Size), "%v at %d, after the fence", op, at)
			at += op.Size
		}
		again := ops[len(ops)-1]
		again.Seed = p.next()
		writes = append(writes, p.start(p.a, again))
		again.Kind, again.Fence = party.Read, true
		require.NoError(p, p.done(p.start(p.a, again)).Content.Whole(again.Seed, again.Size), "a fenced read")
		for _, w := range writes {
			p.done(w)
		}
		end()
	}
}
