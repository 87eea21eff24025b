package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestRefusedPostsHaveNoPlace: a posted operation that is refused for what it asks gives back all that was
// taken for it, its slot in the queue if it had one, its place and its request in the ring.
func TestRefusedPostsHaveNoPlace(t *testing.T) {
	const depth = 4
	a, b := lab{dev: sim.DeviceConfig{}, mode: efa.ProgressManual, depth: depth}.open(t)
	buf, into, ctx := make([]byte, 8), make([]byte, 8), testContext(t)
	long := make([]byte, 1<<16)
	refused := map[string]func() error{
		"level": func() error { return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Level: 99})) },
		"quiet, level": func() error {
			return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Level: 99, Quiet: true}))
		},
		"inject, level": func() error {
			return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Level: 99, Inject: true}))
		},
		"inject":      func() error { return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: long, Inject: true})) },
		"multi":       func() error { return second(a.ep.PostRecv(&efa.RecvReq{Multi: true})) },
		"quiet multi": func() error { return second(a.ep.PostRecv(&efa.RecvReq{Multi: true, Quiet: true})) },
	}
	for name, post := range refused {
		for range 2000 { // more often than there are places
			err := post()
			require.Error(t, err, name)
			require.NotErrorIs(t, err, efa.ErrAgain, name)
			a.ep.SendQueue().TryRead(make([]efa.Completion, 1)) // has the shard look at the ring
		}
		for range depth {
			require.NoError(t, second(b.ep.PostRecv(&efa.RecvReq{Buf: into})), name)
			require.NoError(t, second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf})), name)
		}
		require.ErrorIs(t, second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf})), efa.ErrAgain, name)
		for _, s := range []*side{a, b} {
			for n := 0; n < depth; {
				var cs [depth]efa.Completion
				k, err := s.ep.SendQueue().Read(ctx, cs[:])
				require.NoError(t, err, name)
				n += k
			}
		}
	}
}
