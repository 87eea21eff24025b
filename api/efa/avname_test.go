package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestPeerName: a peer's name is in the errors of all kinds of calls that have to do with it,
// and is gone with its handle.
func TestPeerName(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	require.Empty(t, a.av.Name(a.peer))
	h, err := a.av.InsertNamed(b.ep.Address(), "bob") // is there already
	require.NoError(t, err)
	require.Equal(t, a.peer, h)
	require.Equal(t, "bob", a.av.Name(h))
	_, err = a.av.InsertNamed(b.ep.Address(), "")
	require.NoError(t, err)
	require.Equal(t, "bob", a.av.Name(h), "a name of nothing takes none away")

	err = a.ep.Memory(a.peer, efa.KeyRemote(1, 8)).Write(ctx, pattern(8), efa.Complete(efa.Delivered))
	require.ErrorContains(t, err, "efa: write, peer 0 (bob): ")
	var oe *efa.OpError
	require.ErrorAs(t, err, &oe)
	require.Equal(t, "bob", oe.Name)

	op, err := a.ep.Start(&efa.SendReq{To: a.peer, Buf: pattern(4 << 20)})
	require.NoError(t, err)
	op.Cancel()
	c, err := op.Wait(ctx)
	require.ErrorContains(t, err, "efa: send, peer 0 (bob): ")
	require.ErrorContains(t, c.Err, "(bob)")

	require.NoError(t, a.av.SetName(h, "robert"))
	require.Equal(t, "robert", a.av.Name(h))
	require.NoError(t, a.av.SetValue(h, 1))
	require.Equal(t, "robert", a.av.Name(h), "a value leaves the name")
	require.NoError(t, a.av.Remove(ctx, h))
	require.Empty(t, a.av.Name(h))
	require.ErrorIs(t, a.av.SetName(h, "bob"), efa.ErrInvalid)
	for _, none := range []efa.Addr{efa.NoAddr, efa.AnyAddr, 12345} {
		require.Empty(t, a.av.Name(none))
		require.ErrorIs(t, a.av.SetName(none, "bob"), efa.ErrInvalid)
	}
	_, err = a.av.InsertNamed(efa.Address{}, "nobody")
	require.ErrorIs(t, err, efa.ErrAddrNotAvail)
	again, err := a.av.InsertNamed(simAddress(1), "carol")
	require.NoError(t, err)
	require.Equal(t, "carol", a.av.Name(again))
}
