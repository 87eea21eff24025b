package merge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/trial"
)

var all = regexp.MustCompile("")

// line is a result; one that has no peer has a ratio of 0.
func line(name, peer string, ours, ratio float64, better string) trial.Line {
	l := trial.Line{Case: name, Peer: peer, Ours: ours, Unit: "us", Better: better}
	if ratio != 0 {
		theirs := ours / ratio
		l.Theirs, l.Ratio = &theirs, &ratio
	}
	return l
}

func written(t *testing.T, names string, runs ...Run) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, runs, regexp.MustCompile(names), Figures))
	return b.String()
}

func TestRead(t *testing.T) {
	want := Run{line("latency/shm/8B", "mpich", 2, 0.5, "less"), line("idle/shm", trial.NoPeer, 1, 0, "less")}
	var b bytes.Buffer
	for i := range want {
		require.NoError(t, json.NewEncoder(&b).Encode(&want[i]))
	}
	text := b.String()
	got, err := Read(&b)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for name, bad := range map[string]string{
		"nothing":     "",
		"cut":         text[:len(text)-5],
		"two runs":    text + text,
		"no case":     `{"peer":"none","ours":1}`,
		"no ratio":    `{"case":"a","peer":"mpich","ours":1}`,
		"no figure":   `{"case":"a","peer":"mpich","ours":1,"ratio":1}`,
		"ratio of 0":  `{"case":"a","peer":"mpich","ours":1,"theirs":1,"ratio":0}`,
		"other lines": "# 5 rounds",
	} {
		_, err := Read(strings.NewReader(bad))
		assert.ErrorIs(t, err, errRun, name)
	}
}

// TestAims: an aim is reached by the median; how many runs reach it is said where they differ.
func TestAims(t *testing.T) {
	runs := make([]Run, 5)
	for i := range runs {
		r := 0.6 + 0.1*float64(i) // 0.6 to 1.0
		runs[i] = Run{
			line("latency/shm/8B", "libfabric-shm", 1, r, "less"),
			line("rate/shm/8B", "libfabric-shm", 1, 2+r, "more"),
			line("rate/shm/8B", "mpich", 1, 1.1*r, "more"),
			line("rate/shm/8B", "ucx-shm", 1, 2, "more"),
		}
	}
	text := written(t, "shm/8B$", runs...)
	for _, want := range []string{
		"| latency/shm/8B | libfabric-shm | <= 0.8 | 0.80 | 0.60 to 1.00 | 5 | yes, in 3 of 5 |",
		"| rate/shm/8B | libfabric-shm | >= 3 | 2.80 | 2.60 to 3.00 | 5 | **no**, in 1 of 5 |",
		"| rate/shm/8B | mpich | >= 0.7 | 0.88 | 0.66 to 1.10 | 5 | yes, in 4 of 5 |",
		"| rate/shm/8B | ucx-shm | >= 1 | 2.00 | 2.00 to 2.00 | 5 | yes |",
		"| latency/shm/8B | ucx-shm | <= 1.2 | - | - | 0 | not measured |",
	} {
		assert.Contains(t, text, want+"\n")
	}
	assert.NotContains(t, text, "allreduce")
}

// TestBest: the best peer may be another one in each run, and one that is missing is none.
func TestBest(t *testing.T) {
	text := written(t, "^bandwidth/shm/1MiB$",
		Run{line("bandwidth/shm/1MiB", "mpich", 1, 0.5, "more"), line("bandwidth/shm/1MiB", "ucx-shm", 1, 0.7, "more")},
		Run{line("bandwidth/shm/1MiB", "mpich", 1, 0.8, "more"), line("bandwidth/shm/1MiB", "ucx-shm", 1, 0.6, "more")},
		Run{line("bandwidth/shm/1MiB", "openmpi", 1, 0.1, "more")},
	)
	assert.Contains(t, text, "| the best of libfabric-shm, mpich, ucx-shm | >= 1 | 0.55 | 0.50 to 0.60 | 2 | **no** |\n")
	a := count([]Run{{line("x", "a", 1, 0.5, "less"), line("x", "b", 1, 0.7, "less")}}, all)
	assert.Equal(t, []float64{0.7}, a.by["x"].toBest([]string{"a", "b"}, 1))
}

// TestTails: an aim may be of another figure of the runs, where both systems have it.
func TestTails(t *testing.T) {
	with := line("request/shm/think/5ms", "go-unix", 50, 0.5, "less")
	with.Percentiles, with.TheirPercentiles = map[string]float64{"p99": 30, "cpu": 9, "calls": 4}, map[string]float64{"p99": 20, "cpu": 0}
	var b bytes.Buffer
	require.NoError(t, Write(&b, []Run{{with}, {line("request/shm/think/5ms", "go-unix", 50, 0.7, "less")}}, regexp.MustCompile("5ms$"), Waiting))
	for _, want := range []string{
		"| request/shm/think/5ms | go-unix | <= 0.8 | 0.60 | 0.50 to 0.70 | 2 | yes |",
		"| request/shm/think/5ms, p99 | go-unix | <= 1 | 1.50 | 1.50 to 1.50 | 1 | **no** |",
		"| request/shm/think/5ms, cpu | go-unix | <= 1.5 | - | - | 0 | not measured |",
	} {
		assert.Contains(t, b.String(), want+"\n")
	}
	assert.NotContains(t, b.String(), "latency/shm/8B")
}

// TestTables: a table has the cases of a family by size, and a column for each peer.
func TestTables(t *testing.T) {
	runs := make([]Run, 3)
	for i := range runs {
		x := float64(i + 1)
		small := line("latency/shm/8B", "libfabric-shm", x, 0.02*x, "less")
		small.Percentiles = map[string]float64{"p50": x / 2}
		runs[i] = Run{
			line("latency/shm/1KiB", "libfabric-shm", 10*x, x, "less"), line("latency/shm/1KiB", "mpich", 10*x, 0.5, "less"),
			small, line("latency/shm/8B/slice", "libfabric-shm", x, 1, "less"), line("idle/shm", trial.NoPeer, x, 0, "less"),
			line("rate/shm/8B", "mpich", x, 0.5, "more"),
		}
	}
	text := written(t, "", runs...)
	assert.Contains(t, text, `
| latency/shm | efactor, us | p50 | libfabric-shm | mpich |
|---|---|---|---|---|
| 8B | 2.00 (1.00 to 3.00) | 1.00 | 0.040 (0.020 to 0.060) |  |
| 8B/slice | 2.00 (1.00 to 3.00) |  | 1.00 (1.00 to 1.00) |  |
| 1KiB | 20.00 (10.00 to 30.00) |  | **2.00** (1.00 to 3.00) | 0.50 (0.50 to 0.50) |

| idle | efactor, us |
|---|---|
| shm | 2.00 (1.00 to 3.00) |

| rate/shm | efactor, us | mpich |
|---|---|---|
| 8B | 2.00 (1.00 to 3.00) | **0.50** (0.50 to 0.50) |

**Bold**: efactor is behind.
`)
	assert.Contains(t, written(t, "", runs[0]), "| 8B | 1.00 | 0.50 | 0.020 |  |\n")
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 0.00123: "0.0012", 0.0123: "0.012", 0.8149: "0.81", 107.26: "107.3"} {
		assert.Equal(t, want, digits(v))
	}
}

func TestSplit(t *testing.T) {
	for name, want := range map[string]string{
		"latency/shm/8B/slice":     "latency/shm|8B/slice",
		"bandwidth/shm/both/1MiB":  "bandwidth/shm/both|1MiB",
		"match/unexpected/64":      "match/unexpected|64",
		"allreduce/4/8B":           "allreduce|4/8B",
		"memory/peers1000":         "memory|peers1000",
		"request/shm/auto/8B":      "request/shm/auto|8B",
		"cpu":                      "cpu|",
		"64/8B":                    "64|8B",
		"rate/shm/8B/window4":      "rate/shm|8B/window4",
		"allocations/shm/eager/8B": "allocations/shm/eager|8B",
	} {
		family, rest := split(name)
		assert.Equal(t, want, fmt.Sprintf("%s|%s", family, rest), name)
	}
}
