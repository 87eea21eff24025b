package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestExport: peers that know the key 7 use a part of a region by offsets, without having been
// told anything, as far as the part and its rights go.
func TestExport(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		region := alloc(t, b, 200_000, remote)
		given, err := region.Export(efa.Export{Key: 7, Off: 1000, Len: 150_000, Access: efa.AccessRemoteRead | efa.AccessRemoteWrite})
		require.NoError(t, err)
		require.EqualValues(t, 150_000, given.Len())
		at := efa.KeyRemote(7, 150_000)
		for _, n := range []int{0, 1, 8000, 9000, 150_000} {
			p, q := pattern(n), make([]byte, n)
			clear(region.Bytes())
			require.NoError(t, a.ep.Memory(a.peer, at).Write(ctx, p, efa.Complete(efa.Delivered)))
			require.Equal(t, p, region.Bytes()[1000:1000+n])
			require.NoError(t, a.ep.Memory(a.peer, at).Read(ctx, q))
			require.Equal(t, p, q)
		}
		cell := efa.NewCell[uint64](a.ep.Memory(a.peer, at.Slice(8, 8)))
		clear(region.Bytes())
		old, err := cell.FetchAdd(ctx, 5)
		require.NoError(t, err)
		require.Zero(t, old)
		require.EqualValues(t, 5, region.Bytes()[1008])

		_, err = region.Export(efa.Export{Key: 7, Access: efa.AccessRemoteRead})
		require.ErrorIs(t, err, efa.ErrNoKey, "the key is in use")
		part, err := region.Export(efa.Export{Off: 8, Len: 8, Access: efa.AccessRemoteRead})
		require.NoError(t, err, "a part that can be read alone, by a key that is drawn")
		require.NoError(t, a.ep.Memory(a.peer, part).Read(ctx, make([]byte, 8)))
		require.Error(t, a.ep.Memory(a.peer, part).Write(ctx, make([]byte, 8), efa.Complete(efa.Delivered)))
		require.Error(t, efa.NewCell[uint64](a.ep.Memory(a.peer, part)).Update(ctx, amo.Sum, []uint64{1}, efa.Complete(efa.Delivered)))

		require.NoError(t, region.Unexport(given))
		require.ErrorIs(t, region.Unexport(given), efa.ErrNoKey)
		require.ErrorIs(t, region.Unexport(region.Remote()), efa.ErrNoKey)
		require.Error(t, a.ep.Memory(a.peer, at).Read(ctx, make([]byte, 8)))
		_, err = region.Export(efa.Export{Key: 7, Access: efa.AccessRemoteRead})
		require.NoError(t, err)
	})
}

func TestExportRefused(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, _ *side) {
		region := alloc(t, a, 100, efa.AccessSend|efa.AccessRemoteRead)
		for _, x := range []efa.Export{
			{},
			{Access: efa.AccessSend},
			{Access: efa.AccessRemoteWrite},
			{Access: 1 << 7},
			{Access: efa.AccessRemoteRead, Key: efa.MaxKey + 1},
			{Access: efa.AccessRemoteRead, Off: -1},
			{Access: efa.AccessRemoteRead, Off: 100},
			{Access: efa.AccessRemoteRead, Off: 1, Len: 100},
			{Access: efa.AccessRemoteRead, Len: -1},
			{Access: efa.AccessRemoteRead, Off: 101},
			{Access: efa.AccessRemoteRead, Off: 1 << 62, Len: 1 << 62},
		} {
			_, err := region.Export(x)
			require.ErrorIs(t, err, efa.ErrInvalid, "%+v", x)
		}
		require.NoError(t, region.Close())
		_, err := region.Export(efa.Export{Access: efa.AccessRemoteRead})
		require.ErrorIs(t, err, efa.ErrClosed)
	})
}
