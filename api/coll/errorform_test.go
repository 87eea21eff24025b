package coll_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
)

// TestErrorForm: "coll", the call, the cause, on one line.
func TestErrorForm(t *testing.T) {
	require.EqualError(t, second(coll.New(coll.Config{})), "coll: new: invalid argument: coll needs an endpoint")
	require.EqualError(t, second(coll.Every(0, 1, 2)), "coll: ranks: invalid argument: every 0 ranks from 1 to 2")
	inner := &efa.OpError{Op: "recv", Peer: 3, Name: "rank 3 on node7", Err: efa.ErrPeerFailed}
	require.EqualError(t, &coll.RankError{Rank: 3, Err: inner}, "coll: rank 3: recv, peer 3 (rank 3 on node7): "+efa.ErrPeerFailed.Error())
	require.EqualError(t, &coll.RankError{Rank: 1, Err: errors.Join(coll.ErrAborted, coll.ErrMismatch)}, "coll: rank 1: given up; the ranks' calls do not fit together")

	ctx := t.Context()
	ep, err := efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{DeviceName: "sim"}})
	require.NoError(t, err)
	self, err := ep.AddressVector().Insert(ep.Address())
	require.NoError(t, err)
	c, err := coll.New(coll.Config{Endpoint: ep, Peers: []efa.Addr{self}})
	require.NoError(t, err)
	err = coll.Bcast(ctx, c, []int{1}, 7)
	require.EqualError(t, err, "coll: bcast: invalid argument: root 7 of 1 ranks")
	require.ErrorIs(t, err, efa.ErrInvalid)
	require.EqualError(t, second(coll.Alloc[int](c, -1)), "coll: alloc: invalid argument: -1 elements")
	require.EqualError(t, coll.Free(c, []int{1}), "coll: free: invalid argument: it is not Alloc's")
	c.Abort(errors.New("enough"))
	err = coll.Barrier(ctx, c)
	require.EqualError(t, err, "coll: barrier: rank 0: given up: enough")
	require.ErrorIs(t, err, coll.ErrAborted)
	require.ErrorAs(t, err, new(*coll.RankError))
	_ = c.Close(ctx)
	require.ErrorIs(t, coll.Barrier(ctx, c), efa.ErrClosed)
	require.NoError(t, ep.Close())
}

func second[T any](_ T, err error) error { return err }
