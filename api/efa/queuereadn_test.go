package efa_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestReadN: it returns with all that was asked for and no more, also beyond the queue's depth,
// or with what came and the reason.
func TestReadN(t *testing.T) {
	const depth, n = 4, 50
	a, b := lab{depth: depth, mode: efa.ProgressCooperative}.open(t)
	ctx, q := testContext(t), b.ep.RecvQueue()
	m := alloc(t, b, 64, remote)
	write := func(i int) error {
		return a.ep.Memory(a.peer, m.Remote()).Write(ctx, nil, efa.Data(uint64(i)), efa.Complete(efa.Delivered))
	}
	sent := make(chan error, 1)
	go func() {
		sent <- func() error {
			for i := range n + 3 {
				if err := write(i); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	cs := make([]efa.Completion, n+3)
	got, err := q.ReadN(ctx, cs, n)
	require.NoError(t, err)
	require.Equal(t, n, got)
	require.NoError(t, <-sent)
	for i, c := range cs[:n] {
		require.Equal(t, uint64(i), c.Data)
	}
	require.Zero(t, cs[n], "no more than n")
	got, err = q.ReadN(ctx, cs, 3)
	require.NoError(t, err)
	require.Equal(t, 3, got)

	for _, bad := range []int{-1, 0, len(cs) + 1} {
		_, err := q.ReadN(ctx, cs, bad)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	short, cancel := context.WithCancel(ctx)
	require.NoError(t, write(77))
	c := next(t, b)
	require.Equal(t, uint64(77), c.Data)
	type end struct {
		n   int
		err error
	}
	ended := make(chan end, 1)
	go func() {
		k, err := q.ReadN(short, cs, 2)
		ended <- end{k, err}
	}()
	require.NoError(t, write(78))
	for q.Used() > 0 { // it has taken the first
		require.NoError(t, ctx.Err())
	}
	cancel()
	e := <-ended
	require.ErrorIs(t, e.err, context.Canceled)
	require.Equal(t, 1, e.n)
	require.Equal(t, uint64(78), cs[0].Data)
	go func() {
		k, err := q.ReadN(ctx, cs, 1)
		ended <- end{k, err}
	}()
	require.NoError(t, b.ep.Close())
	e = <-ended
	require.ErrorIs(t, e.err, efa.ErrClosed)
	require.Zero(t, e.n)
}
