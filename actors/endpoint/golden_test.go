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
	"github.com/efactor/efactor/internal/testenv"
)

// folder names one with other captures; internal/golden/README.md has their format.
const folder = "EFACTOR_GOLDEN"

// impossible is why a side of a scenario cannot be replayed.
func impossible(s *golden.Scenario, side string) string {
	bare := func(p golden.Packet) bool { return p.Type == golden.Headerless && p.From != side }
	if slices.ContainsFunc(s.Packets, bare) {
		return "our endpoint has no user receive queue pair, for data without headers"
	}
	return ""
}

var rewrite = flag.Bool("rewrite-replayed", false, "write testdata/replayed.golden anew")

// listHead explains the list.
const listHead = `# What TestGolden replays: the scenario, the place that our endpoint had, packets
# +RDMA requests that it sent, each compared with the captured one, and that it got.
# Where an atomic of ours has one piece of memory for two that lie side by side,
# packets are compared after the two were made one.
`

// TestGolden replays captured scenarios of real libfabric, with our endpoint in the place of
// each of the two processes in turn. testdata/replayed.golden lists
// the comparisons, so that none drops out unnoticed.
func TestGolden(t *testing.T) {
	scenarios, err := golden.LoadAll()
	require.NoError(t, err)
	list, whole := replayAll(t, scenarios)
	if !whole {
		return // some failed, or were not asked for, as in the short form
	}
	list = listHead + list
	if *rewrite {
		require.NoError(t, os.WriteFile("testdata/replayed.golden", []byte(list), 0o600))
	}
	want, err := os.ReadFile("testdata/replayed.golden")
	require.NoError(t, err)
	if list != string(want) {
		require.Equal(t, strings.Split(string(want), "\n"), strings.Split(list, "\n"))
	}
}

// TestGoldenFolder replays the captures in the folder that EFACTOR_GOLDEN names, and logs the
// list. What it has to know of a capture stands in the capture.
func TestGoldenFolder(t *testing.T) {
	dir := os.Getenv(folder)
	if dir == "" {
		t.Skip(folder + " names no folder")
	}
	scenarios, err := golden.LoadFS(os.DirFS(dir))
	require.NoError(t, err)
	list, _ := replayAll(t, scenarios)
	t.Log("\n" + list)
}

// replayAll replays scenarios, in the short form a part of them, and makes the list. whole: it
// has all of them, and none failed.
func replayAll(t *testing.T, scenarios []golden.Scenario) (list string, whole bool) {
	var b strings.Builder
	var sum outcome
	ran := 0
	for i := range scenarios {
		if testenv.Short() && i%4 > 0 {
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
				if o := &r.result; o.packets+o.rdma+o.gotPackets+o.gotRDMA == 0 {
					fmt.Fprintf(&b, "%s: not replayed: %s\n", name, strings.Join(o.notes, "; "))
					return
				}
				fmt.Fprintf(&b, "%s: %s\n", name, &r.result)
			})
		}
	}
	fmt.Fprintf(&b, "all: %s\n", &sum)
	return b.String(), ran == 2*len(scenarios)
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
