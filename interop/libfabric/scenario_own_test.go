//go:build linux

package libfabric_test

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// ownScenarios are what efactor can do and libfabric cannot.
func ownScenarios() []scenario {
	gaps := []gap{{begins: efactorBegins, why: "libfabric has no such operation, or promises nothing of it"}}
	return []scenario{
		{
			name: "canceled sends", proves: []string{"canceled sends"}, where: everywhere,
			gaps: gaps, play: canceledSends,
		},
		{
			name: "a peer that is removed and comes back", proves: []string{"removed peers"}, where: everywhere,
			gaps: gaps, play: removed,
		},
		{
			name: "fences after writes", proves: []string{"fences"}, where: everywhere,
			gaps: gaps, play: fences,
		},
	}
}

// canceledSends: a message whose number was used arrives, though its sender has gone.
func canceledSends(p *play) {
	for _, size := range []int{100, 20000, 70000, 90000} {
		for _, l := range []party.Level{party.Default, party.Delivered} {
			s := p.sending(party.Op{Size: size, Level: l, Tagged: true, Tag: 4})
			sent := p.start(p.a, s)
			p.mark()
			require.NoError(p, p.a.Cancel(p.ctx, sent))
			if out := p.ended(sent); out.Errno != 0 {
				require.Equal(p, errCanceled, out.Errno, out.Text)
			}
			p.received(s, p.done(p.start(p.b, p.receiving(s, party.Op{}))))
			p.exchange(party.Op{Size: 50}, party.Op{})
		}
	}
}

// removed: a peer that was removed while it lives, and is inserted again, resumes.
func removed(p *play) {
	for range 3 {
		require.NoError(p, p.a.Remove(p.ctx, p.toB))
		var err error
		p.toB, err = p.a.Insert(p.ctx, p.b.Address())
		require.NoError(p, err)
		p.w.toLF = p.toB
		p.w.thereAndBack(p.T)
	}
}
