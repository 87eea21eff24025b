package coll

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// ranksOf is a group that cannot send anything.
func ranksOf(ranks int) *Comm {
	f := &family{limits: efa.Limits{MaxInject: 4096}}
	return &Comm{group: &group{family: f, peers: make([]efa.Addr, ranks)}}
}

// begun is a call of Allreduce with two elements that has begun.
func begun(t *testing.T, c *Comm, opts ...Option) *call {
	x := newAllreduce(c, make([]float32, 2), make([]float32, 2), Sum[float32], opts)
	require.NoError(t, x.begin(context.Background()))
	return x
}

// TestCallAgain: a call that is used again has nothing of the previous one except equal
// settings.
func TestCallAgain(t *testing.T) {
	c := ranksOf(4)
	first := begun(t, c)
	sign := first.sign
	first.free()
	x := begun(t, c)
	require.Same(t, first, x)
	require.Equal(t, sign, x.sign)
	require.NotSame(t, first, begun(t, c), "while it is in use")
	x.free()

	x = begun(t, c, Use("ring"), NonCommutative, Segment(1<<20))
	require.Same(t, first, x)
	require.NotEqual(t, settings{}, x.set)
	x.free()
	x = begun(t, c)
	require.Equal(t, settings{}, x.set, "options are of one call")
	require.Equal(t, sign, x.sign)
	x.free()

	view := c.With(Use("ring"))
	x = begun(t, view)
	require.Equal(t, "ring", x.set.use)
	x.free()
	begun(t, c).free()

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
	x = begun(t, c)
	require.Same(t, first, x)
	require.Equal(t, []int{4, 8, 0}, []int{x.lay.elem, x.bytes, x.root})
	require.Equal(t, sign, x.sign)
	x.free()
	require.Nil(t, x.in, "buffers are let go")
	require.Nil(t, x.out)
	require.Nil(t, x.parent)
}
