package coll

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

func TestChoose(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	for _, x := range []struct {
		kind         kind
		bytes, ranks int
		ordered      bool
		want         string
	}{
		{kindBarrier, 0, 5, false, "dissemination"},
		{kindBcast, 8, 4, false, "binomial"},
		{kindBcast, 256 * k, 8, false, "scatter-allgather"},
		{kindBcast, 16 * m, 8, false, "pipeline"},
		{kindBcast, 16 * m, 2, false, "binomial"},
		{kindBcast, 16 * m, 64, false, "scatter-allgather"},
		{kindGather, 8, 8, false, "binomial"},
		{kindGather, m, 8, false, "linear"},
		{kindScatter, 8, 8, false, "binomial"},
		{kindScatter, 8, 2, false, "linear"},
		{kindGatherv, 0, 8, false, "linear"},
		{kindScatterv, 0, 8, false, "linear"},
		{kindAllgather, 8, 8, false, "recursive-doubling"},
		{kindAllgather, 8, 7, false, "bruck"},
		{kindAllgather, m, 8, false, "ring"},
		{kindAllgatherv, 100, 7, false, "bruck"},
		{kindAllgatherv, m, 7, false, "ring"},
		{kindAlltoall, 8 * 16, 16, false, "bruck"},
		{kindAlltoall, m, 16, false, "pairwise"},
		{kindAlltoallv, 0, 16, false, "pairwise"},
		{kindReduce, 8, 5, false, "binomial"},
		{kindReduce, m, 5, false, "rabenseifner"},
		{kindReduce, m, 5, true, "binomial"},
		{kindAllreduce, 8, 5, false, "recursive-doubling"},
		{kindAllreduce, 64 * k, 2, false, "recursive-doubling"},
		{kindAllreduce, 64 * k, 5, false, "rabenseifner"},
		{kindAllreduce, 16 * m, 4, false, "rabenseifner"},
		{kindAllreduce, 16 * m, 8, false, "ring"},
		{kindAllreduce, 16 * m, 8, true, "recursive-doubling"},
		{kindReduceScatter, 64 * k, 8, false, "recursive-halving"},
		{kindReduceScatter, 64 * k, 7, false, "pairwise"},
		{kindReduceScatter, 16 * m, 8, false, "pairwise"},
		{kindReduceScatter, 8, 8, true, "reduce-scatterv"},
		{kindScan, 8, 8, true, "recursive-doubling"},
		{kindExscan, m, 8, false, "linear"},
	} {
		require.Equal(t, x.want, choose(x.kind, x.bytes, x.ranks, x.ordered), "%v of %d bytes on %d ranks", x.kind, x.bytes, x.ranks)
	}
}

// TestChoiceFits: the chosen algorithm exists and can be used, for any size.
func TestChoiceFits(t *testing.T) {
	for k := kindBarrier; k < numKinds; k++ {
		for ranks := 1; ranks < 70; ranks++ {
			for bytes := 0; bytes < 1<<36; bytes = 3*bytes + 1 {
				for _, ordered := range []bool{false, true} {
					name := choose(k, bytes, ranks, ordered)
					found := false
					for _, a := range algorithms[k] {
						found = found || a.name == name && (a.fits == nil || a.fits(ranks, ordered))
					}
					require.True(t, found, "%v of %d bytes on %d ranks: %q", k, bytes, ranks, name)
				}
			}
		}
	}
}

// TestHugeLayouts: places in buffers of any size that there can be.
func TestHugeLayouts(t *testing.T) {
	for _, x := range []struct{ n, p, elem int }{
		{1 << 31, 3, 8}, {1<<33 + 5, 7, 16}, {1 << 58, 16, 16}, {5, 16, 8}, {0, 3, 1},
	} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			l := even(x.n, x.p, x.elem)
			require.Zero(t, l.from(0))
			require.Equal(t, x.n*x.elem, l.from(x.p))
			for r := range x.p {
				require.GreaterOrEqual(t, l.size(r), x.n/x.p*x.elem)
				require.LessOrEqual(t, l.size(r), (x.n/x.p+1)*x.elem)
				require.Zero(t, l.from(r)%x.elem)
			}
			require.Equal(t, l.largest(x.p), l.size(0))
		})
	}
	l := layout{elem: 16}
	require.NoError(t, l.setCounts([]int{1 << 40, 0, 1 << 41}, 3, 3<<40))
	require.Equal(t, 1<<44, l.from(2))
	require.Equal(t, 1<<45, l.largest(3))
	require.ErrorIs(t, l.setCounts([]int{1<<63 - 1, 1<<63 - 1, 2}, 3, 0), efa.ErrInvalid)
}

func TestTagsAreDistinct(t *testing.T) {
	seen := map[uint64]bool{revokeTag(rootContext): true, revokeTag(5): true}
	for _, id := range []uint64{rootContext, 1, 5, maxContexts - 1} {
		for _, seq := range []uint64{0, 1, seqRevoke - 1} {
			for _, ack := range []uint64{0, tagAck} {
				tag := tagOf(id, seq) | ack
				require.False(t, seen[tag])
				require.NotZero(t, tag&tagOurs)
				require.Zero(t, tag&tagIgnore)
				seen[tag] = true
			}
		}
		require.Equal(t, tagOf(id, 3), tagOf(id, seqRevoke+3), "sequences begin anew")
		require.NotEqual(t, revokeTag(id), tagOf(id, seqRevoke))
	}
}

// TestSignatures: every value that ranks must agree about changes the signature.
func TestSignatures(t *testing.T) {
	of := map[uint64]string{}
	clash := 0
	for k := kindBarrier; k < numKinds; k++ {
		for root := range 4 {
			for _, bytes := range []int{0, 8, 16, 1 << 20, 1<<32 + 8} {
				s := sign(k, 0, root, bytes)
				require.Zero(t, s&^signMask)
				if of[s] != "" {
					clash++
				}
				of[s] = fmt.Sprint(k, root, bytes)
			}
		}
	}
	require.Less(t, clash, 30, "of 320 in 4096")
}

// TestRevocations: nothing that comes from outside is believed unseen.
func TestRevocations(t *testing.T) {
	g := &group{family: &family{limits: efa.Limits{MaxInject: 4096}}, nonce: 77, peers: make([]efa.Addr, 3)}
	msg := g.encode(&RankError{2, fmt.Errorf("%w: so it is", efa.ErrPeerFailed)})
	e, ok := g.decode(msg)
	require.True(t, ok)
	require.Equal(t, 2, e.Rank)
	require.ErrorIs(t, e, efa.ErrPeerFailed)
	require.ErrorContains(t, e, "so it is")
	for i := range revocationHead {
		_, ok = g.decode(msg[:i])
		require.False(t, ok, "cut at %d", i)
	}
	for _, at := range []int{0, 8, 11, 12} { // nonce, rank, cause
		bad := append([]byte(nil), msg...)
		bad[at] ^= 0xff
		_, ok = g.decode(bad)
		require.False(t, ok, "byte %d", at)
	}
	for _, cause := range []error{ErrAborted, ErrMismatch} {
		e, _ := g.decode(g.encode(&RankError{0, cause}))
		require.ErrorIs(t, e, cause)
	}
	long := g.encode(&RankError{0, fmt.Errorf("%01000d", 7)})
	require.LessOrEqual(t, len(long), revocationMost)
}
