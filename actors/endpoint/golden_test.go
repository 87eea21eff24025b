package endpoint_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

var le = binary.LittleEndian

// TestGolden replays what real libfabric did, with our endpoint in the place of
// each of the two processes in turn.
func TestGolden(t *testing.T) {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	for i := range scenarios {
		s := &scenarios[i]
		packets := replayable(s)
		if len(packets) == 0 {
			continue
		}
		for _, side := range []string{"A", "B"} {
			t.Run(s.Libfabric+"/"+s.Name+"/"+side, func(t *testing.T) { newReplay(t, s, side).run(packets) })
		}
	}
}

// TestGoldenCount: no scenario drops out of TestGolden unnoticed.
func TestGoldenCount(t *testing.T) {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	whole, part, packets := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range scenarios {
		s := &scenarios[i]
		n := len(replayable(s))
		group, _, _ := strings.Cut(s.Name, "/")
		key := s.Libfabric + " " + group
		switch {
		case n == 0:
			continue
		case n == len(s.Packets):
			whole[key]++
		default:
			part[key]++
		}
		packets[s.Libfabric] += n
	}
	require.Equal(t, map[string]int{
		"1.17.0 first": 21, "1.17.0 connid": 3,
		"2.3.1 first": 21, "2.3.1 connid": 3, "2.3.1 rdma": 2,
	}, whole)
	// Up to the first operation that is one-sided, delivery complete, long-read
	// or runt; often that is one message, which introduces the two.
	require.Equal(t, map[string]int{
		"1.17.0 connid": 6, "1.17.0 dc": 2, "1.17.0 ids": 3, "1.17.0 rdma": 4,
		"2.3.1 connid": 6, "2.3.1 dc": 2, "2.3.1 ids": 6, "2.3.1 rdma": 9,
	}, part)
	require.Equal(t, map[string]int{"1.17.0": 294, "2.3.1": 344}, packets)
}
