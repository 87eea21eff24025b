package coll

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/efactor/efactor/api/efa"
)

// ranksOf is a group that cannot send anything.
func ranksOf(ranks int) *Comm {
	f := &family{limits: efa.Limits{MaxInject: 4096}}
	return &Comm{group: &group{family: f, peers: make([]efa.Addr, ranks)}}
}

// begun is a call of Allreduce that has begun.
func begun(t *testing.T, c *Comm, n int, opts ...Option) *call {
	x := newAllreduce(c, make([]float32, n), make([]float32, n), Sum[float32], opts)
	require.NoError(t, x.begin(context.Background()))
	return x
}

// TestBrief: the short way does what has few bytes and nothing else about it.
func TestBrief(t *testing.T) {
	for ranks, want := range map[int]bool{1: false, 2: true, 3: false, 4: true, 6: false, 8: true} {
		require.Equal(t, want, begun(t, ranksOf(ranks), 2).short, "%d ranks", ranks)
	}
	c := ranksOf(4)
	require.True(t, begun(t, c, 1024).short)
	require.False(t, begun(t, c, 1025).short, "more than can be injected")
	require.False(t, begun(t, c, 2, NonCommutative).short)
	require.False(t, begun(t, c, 2, Use("ring")).short)
	require.True(t, begun(t, c, 2, Use("recursive-doubling")).short)
	x := newScan(c, kindScan, []int{1}, []int{1}, Sum[int], nil)
	require.NoError(t, x.begin(context.Background()))
	require.False(t, x.short)
	c.cfg.Tracer = noop.NewTracerProvider().Tracer("")
	require.False(t, begun(t, c, 2).short, "who traces wants to see rounds")
}

// TestCallAgain: a call that is used again has nothing of the one before but what is the
// same.
func TestCallAgain(t *testing.T) {
	c := ranksOf(4)
	first := begun(t, c, 2)
	sign := first.sign
	first.free()
	x := begun(t, c, 2)
	require.Same(t, first, x)
	require.Equal(t, sign, x.sign)
	require.NotSame(t, first, begun(t, c, 2), "while it is in use")
	x.free()

	x = begun(t, c, 2, Use("ring"), NonCommutative, Segment(1<<20))
	require.Same(t, first, x)
	require.NotEqual(t, settings{}, x.set)
	x.free()
	x = begun(t, c, 2)
	require.Equal(t, settings{}, x.set, "options are of one call")
	require.True(t, x.short)
	require.Equal(t, sign, x.sign)
	x.free()

	view := c.With(Use("ring"))
	x = begun(t, view, 2)
	require.Equal(t, "ring", x.set.use)
	require.False(t, x.short)
	x.free()
	begun(t, c, 2).free()

	x = newBcast(c, make([]int64, 3), 2, nil)
	require.NoError(t, x.begin(context.Background()))
	require.Equal(t, []int{8, 24, 2}, []int{x.lay.elem, x.bytes, x.root})
	require.NotEqual(t, sign, x.sign)
	x.free()
	x = newGatherv(c, []byte{1}, nil, nil, 1, nil)
	require.Equal(t, []int{1, 0, 1, 0}, []int{x.lay.elem, x.bytes, x.root, x.lay.q})
	require.Nil(t, x.out)
	x.free()

	x = newAllreduce(c, []*int{nil}, []*int{nil}, func(_, _ []*int) {}, nil)
	require.ErrorIs(t, x.run(context.Background()), efa.ErrInvalid)
	x = newAllreduce(c, []*int{nil}, []*int{nil}, func(_, _ []*int) {}, nil)
	require.ErrorIs(t, x.run(context.Background()), efa.ErrInvalid, "what was refused is not remembered as good")
	x = begun(t, c, 2)
	require.Same(t, first, x)
	require.Equal(t, []int{4, 8, 0}, []int{x.lay.elem, x.bytes, x.root})
	require.Equal(t, sign, x.sign)
	x.free()
	require.Nil(t, x.in, "buffers are let go")
	require.Nil(t, x.out)
	require.Nil(t, x.parent)
}
