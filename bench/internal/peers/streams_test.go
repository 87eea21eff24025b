package peers

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/flow"
	"github.com/efactor/efactor/internal/testenv"
)

// TestStreams: the C programs that only the whole comparison has do their plans, one way and
// both ways, with messages that wait for no receive and such that do.
func TestStreams(t *testing.T) {
	testenv.NeedAll(t, "other systems' programs")
	for name, find := range map[string]func(context.Context, string) ([]Peer, error){"libfabric": libfabricStreams, "ucx": ucxStreams} {
		t.Run(name, func(t *testing.T) {
			found, err := find(t.Context(), t.TempDir())
			if errors.Is(err, versus.ErrAbsent) {
				testenv.Missing(t, "%v", err)
			}
			require.NoError(t, err)
			require.Len(t, found, 2)
			for _, p := range found {
				for _, size := range []int{8, 300_000} {
					streams(t, &p, size)
				}
			}
		})
	}
}

func streams(t *testing.T, p *Peer, size int) {
	t.Helper()
	plan := flow.Plan{Size: size, Window: 8, Batch: 16, Buffers: 8}
	plan.Messages(40)
	if p.Stream != nil {
		r, err := p.Stream(t.Context(), plan)
		require.NoError(t, err, "%s, %d B", p.Name, size)
		assert.Equal(t, 48, r.Count)
	}
	plan.Both = true
	r, err := p.Both(t.Context(), plan)
	require.NoError(t, err, "%s both ways, %d B", p.Name, size)
	assert.Len(t, r.Nanos, 2)
}

// TestFan: several processes of each system send to one, messages that wait for receives and such that do
// not, and fewer than there are CPUs or more.
func TestFan(t *testing.T) {
	testenv.NeedAll(t, "other systems' programs")
	for name, find := range map[string]func(context.Context, string) ([]Peer, error){
		"mpich": mpich, "openmpi": openMPI, "libfabric": libfabricStreams, "ucx": ucxStreams,
	} {
		t.Run(name, func(t *testing.T) {
			found, err := find(t.Context(), t.TempDir())
			if errors.Is(err, versus.ErrAbsent) {
				testenv.Missing(t, "%v", err)
			}
			require.NoError(t, err)
			for senders, plan := range map[int]flow.Plan{
				1: {Size: 300_000, Window: 4, Batch: 8, Buffers: 2},
				2: {Size: 8, Window: 4, Batch: 8, Buffers: 4},
				5: {Size: 8, Window: 64, Batch: 512, Buffers: 64, Tagged: true},
			} {
				plan.Messages(16)
				r, err := found[0].Fan(t.Context(), senders, plan)
				require.NoError(t, err, "%d senders", senders)
				assert.Equal(t, plan.Count, r.Count)
			}
		})
	}
}
