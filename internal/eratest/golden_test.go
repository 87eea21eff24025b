package eratest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/wire"
)

// TestGoldenPasses puts a judge of its release beside both ends of every captured
// scenario: real libfabric accepts what real libfabric sent. The exception is the one
// scenario that failed for a reason that a judge reports.
func TestGoldenPasses(t *testing.T) {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	packets := map[string]int{}
	for i := range scenarios {
		s := &scenarios[i]
		var faults []error
		tell := func(err error) {
			if err != nil {
				faults = append(faults, err)
			}
		}
		judges := map[string]*Judge{}
		for _, side := range []string{"A", "B"} {
			p, ok := era.ByName(s.Libfabric)
			require.True(t, ok, s.Libfabric)
			judges[side] = NewJudge(p, golden.MTU)
		}
		s.Each(func(p *golden.Packet, to string, b []byte) {
			packets[s.Libfabric]++
			tell(judges[p.From].Sent(b, wire.RawAddr(s.RawAddr[to])))
			from := wire.RawAddr(s.RawAddr[p.From])
			tell(judges[to].Take(b, wire.MakeRawAddr(from.GID(), from.QPN(), 0)))
		})
		if s.Libfabric == "2.3.1" && s.Name == "connid/compare-riov2" {
			require.False(t, s.Completed)
			require.Len(t, faults, 1)
			requireFault(t, RuleCount, faults[0])
			continue
		}
		require.Empty(t, faults, "%s %s", s.Libfabric, s.Name)
	}
	require.Equal(t, map[string]int{"1.17.0": 696, "2.3.1": 857}, packets)
}

func requireFault(t *testing.T, r Rule, err error) {
	t.Helper()
	var f *Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, r, f.Rule, "%v", err)
	require.NotEmpty(t, f.Why)
	require.NotEmpty(t, f.Packet)
}
