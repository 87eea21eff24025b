package peers

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/internal/testenv"
)

// recordedFabric is what fi_pingpong of libfabric 1.17.0 printed.
const recordedFabric = `bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
8       1k      =1k      15k         0.00s      7.43       1.08       0.93
`

func TestParseFabric(t *testing.T) {
	half, err := parseFabric(recordedFabric)
	require.NoError(t, err)
	assert.InDelta(t, 1.08, half, 1e-9)
	for _, bad := range []string{"", "bytes usec/xfer", "bytes usec/xfer\n8", "bytes\n8\n", "usec/xfer\nfast"} {
		_, err := parseFabric(bad)
		assert.Error(t, err, bad)
	}
}

// recordedUCX is what ucx_perftest -f -v of UCX 1.13.1 printed.
const recordedUCX = `iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
 200,4.947,377.178,377.178,0.02,0.02,2651,2651
`

func TestParseUCX(t *testing.T) {
	m, err := parseUCX(recordedUCX)
	require.NoError(t, err)
	assert.InDelta(t, 377.178, m["overall_lat"], 1e-9)
	assert.InDelta(t, 2651, m["overall_mr"], 1e-9)
	for _, bad := range []string{"", "a,b", "a,b\n1", "a,b\n1,x", "a\n1"} {
		_, err := parseUCX(bad)
		assert.Error(t, err, bad)
	}
}

// TestOpenMPI: its programs compile and play; MPICH's do in the tests of the programs that
// have it beside them.
func TestOpenMPI(t *testing.T) {
	testenv.NeedAll(t, "other systems' programs")
	found, err := openMPI(t.Context(), t.TempDir())
	if errors.Is(err, versus.ErrAbsent) {
		testenv.Missing(t, "%v", err)
	}
	require.NoError(t, err)
	require.Len(t, found, 2)
	trip, err := found[0].PingPong(t.Context(), 8, 10)
	require.NoError(t, err)
	assert.Positive(t, trip.Half)
	each, err := found[0].Allreduce(t.Context(), 3, 64, 10)
	require.NoError(t, err)
	assert.Positive(t, each)
	for _, came := range []bool{false, true} {
		each, err = found[0].Each(t.Context(), 50, came, true, 100)
		require.NoError(t, err)
		assert.Positive(t, each)
	}
	assert.Regexp(t, `^Open MPI \d+\.\d+`, mpi.OpenMPI.Version(t.Context()))
	assert.Contains(t, Versions(t.Context()), mpi.OpenMPI.Version(t.Context()))
}
