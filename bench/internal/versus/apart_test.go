package versus

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestApart: a line takes some time. Where there is one core there is nothing to measure.
func TestApart(t *testing.T) {
	ns := Apart()
	if runtime.NumCPU() == 1 || ns == 0 {
		t.Skip("one core, or others use it")
	}
	t.Logf("%.0f ns", ns)
	require.Greater(t, ns, 1.0)
	require.LessOrEqual(t, ns, float64(apartLimit)/apartTrips)
}
