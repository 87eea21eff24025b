package endpoint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// operationAt is the packets of the operation that the n-th packet belongs to, from that on.
func operationAt(s *golden.Scenario, n int) []golden.Packet {
	of := s.Packets[n:]
	for i, p := range of {
		if p.Op != of[0].Op || p.Seed != of[0].Seed {
			return of[:i]
		}
	}
	return of
}

// answers has the packets of which one answers a request.
var answers = []struct {
	request func(typ string) bool
	by      []string
}{
	{func(t string) bool { return strings.HasPrefix(t, "DC_") }, []string{"RECEIPT", "PEER_ERROR"}},
	{func(t string) bool { return strings.HasPrefix(t, "LONGREAD_") }, []string{"EOR", "READ_NACK", "PEER_ERROR"}},
	{func(t string) bool { return t == "FETCH_RTA" || t == "COMPARE_RTA" }, []string{"ATOMRSP", "PEER_ERROR"}},
	{func(t string) bool { return strings.HasSuffix(t, "_RTR") }, []string{"READRSP", "PEER_ERROR"}},
	{func(t string) bool { return strings.HasPrefix(t, "LONGCTS_") && t != "LONGCTS_RTR" }, []string{"CTS", "PEER_ERROR"}},
}

// ended reports whether an operation got the answers that its requests ask for. A capture in
// which libfabric hung or crashed does not say where.
func ended(op []golden.Packet) bool {
	if op[0].Op == "" {
		return true // what was left outstanding
	}
	has := map[string]bool{}
	for _, p := range op {
		has[p.Type] = true
	}
	_, flags, _ := strings.Cut(op[0].Op, ",")
	if slices.Contains(strings.Split(flags, ","), "dc") && !has["RECEIPT"] && !has["EOR"] && !has["PEER_ERROR"] && !has[golden.RDMAWrite] {
		return false
	}
	for _, a := range answers {
		asked, answered := false, false
		for typ := range has {
			asked = asked || a.request(typ)
		}
		for _, by := range a.by {
			answered = answered || has[by]
		}
		if asked && !answered {
			return false
		}
	}
	return true
}

func TestEnded(t *testing.T) {
	op := func(types ...string) (all []golden.Packet) {
		for _, typ := range types {
			all = append(all, golden.Packet{Op: "x", Type: typ})
		}
		return all
	}
	for _, whole := range [][]golden.Packet{
		op("EAGER_MSGRTM"), op("HANDSHAKE"), op("DC_EAGER_RTW", "RECEIPT"), op("LONGREAD_RTW", "EOR"), op("SHORT_RTR", "READRSP"),
		op("DC_LONGCTS_MSGRTM", "CTS", "CTSDATA", "RECEIPT"), op("LONGREAD_MSGRTM", "PEER_ERROR"),
		{{Type: "DC_EAGER_RTW"}},
	} {
		require.True(t, ended(whole), "%v", whole)
	}
	for _, part := range [][]golden.Packet{
		op("DC_EAGER_RTW"), op("DC_LONGCTS_MSGRTM", "CTS"), op("LONGREAD_RTW"), op("LONGCTS_RTR"), op("COMPARE_RTA"), op("LONGCTS_RTW"),
		{{Op: "atomic:4,dc", Type: "EAGER_RTW"}},
		{{Op: "B:write:4,iov2,dc", Type: "HANDSHAKE"}},
	} {
		require.False(t, ended(part), "%v", part)
	}
}
