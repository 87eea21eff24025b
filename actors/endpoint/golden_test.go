package endpoint_test

import (
	"encoding/binary"
	"fmt"
	"os"
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

// TestGoldenList: no scenario, and no part of one, drops out of TestGolden unnoticed.
// A scenario that isn't whole is replayed up to its first operation that is
// one-sided, delivery complete, long-read or runt.
func TestGoldenList(t *testing.T) {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	var b strings.Builder
	count, packets := 0, 0
	for i := range scenarios {
		s := &scenarios[i]
		n := len(replayable(s))
		if n == 0 {
			continue
		}
		count++
		packets += n
		fmt.Fprintf(&b, "%s %s: ", s.Libfabric, s.Name)
		if n == len(s.Packets) {
			fmt.Fprintf(&b, "all %d packets\n", n)
		} else {
			fmt.Fprintf(&b, "%d of %d packets\n", n, len(s.Packets))
		}
	}
	want, err := os.ReadFile("testdata/replayed.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
	require.Equal(t, 88, count)
	require.Equal(t, 638, packets)
}
