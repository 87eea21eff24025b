package endpoint_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// hung are scenarios in which libfabric 1.13.2 did not end an operation that we do end.
var hung = []string{"first/write:30000,dc", "first/atomic:4,dc", "dc/rma", "rdma/longread-write"}

// impossible is why a side of a scenario cannot be replayed.
func impossible(s *golden.Scenario, side string) string {
	if side == "B" && slices.Contains(s.Args, "-Z") {
		return "our endpoint has no user receive queue pair, for data without headers"
	}
	if s.Libfabric == "1.13.2" && slices.Contains(hung, s.Name) {
		return "libfabric hung, so there is no end to compare with"
	}
	return ""
}

var rewrite = flag.Bool("rewrite-replayed", false, "write testdata/replayed.golden anew")

// listHead explains the list.
const listHead = `# What TestGolden replays: the scenario, the place that our endpoint had, packets
# +RDMA requests that it sent, each compared with the captured one, and that it got.
# Where operations of ours have one piece of memory for two that lie side by side,
# packets are compared after the two were made one.
`

// TestGolden replays captured scenarios of real libfabric, with our endpoint in the place of
// each of the two processes in turn. testdata/replayed.golden lists
// the comparisons, so that none drops out unnoticed.
func TestGolden(t *testing.T) {
	scenarios, err := golden.LoadAll()
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString(listHead)
	var sum outcome
	ran := 0
	for i := range scenarios {
		if testing.Short() && i%4 > 0 {
			continue
		}
		s := &scenarios[i]
		for _, side := range []string{"A", "B"} {
			name := s.Libfabric + " " + s.Name + " " + side
			if why := impossible(s, side); why != "" {
				fmt.Fprintf(&b, "%s: not replayed: %s\n", name, why)
				ran++
				continue
			}
			t.Run(s.Libfabric+"/"+s.Name+"/"+side, func(t *testing.T) {
				r := newReplay(t, s, side)
				r.run()
				ran++
				sum.add(&r.result)
				fmt.Fprintf(&b, "%s: %s\n", name, &r.result)
			})
		}
	}
	if ran < 2*len(scenarios) {
		return // some failed, or were not asked for, as with -short
	}
	fmt.Fprintf(&b, "all: %s\n", &sum)
	if *rewrite {
		require.NoError(t, os.WriteFile("testdata/replayed.golden", []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/replayed.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

// outcome counts the comparisons of a replay.
type outcome struct {
	packets, rdma       int // that we sent
	gotPackets, gotRDMA int // that we were sent
	notes               []string
}

// note adds a remark about a deviation from the capture, if it is new.
func (o *outcome) note(s string) {
	if !slices.Contains(o.notes, s) {
		o.notes = append(o.notes, s)
	}
}

func (o *outcome) add(x *outcome) {
	o.packets, o.rdma = o.packets+x.packets, o.rdma+x.rdma
	o.gotPackets, o.gotRDMA = o.gotPackets+x.gotPackets, o.gotRDMA+x.gotRDMA
}

// String is a line of the list.
func (o *outcome) String() string {
	count := func(packets, rdma int) string {
		if rdma == 0 {
			return strconv.Itoa(packets)
		}
		return fmt.Sprintf("%d+%d", packets, rdma)
	}
	s := "sent " + count(o.packets, o.rdma) + ", got " + count(o.gotPackets, o.gotRDMA)
	for _, n := range o.notes {
		s += "; " + n
	}
	return s
}
