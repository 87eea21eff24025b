package main

import (
	"context"
	"encoding/json"
	"flag"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/flow"
	"github.com/efactor/efactor/internal/testenv"
)

// asProgram has the test binary be the program, so that no other must be built; the
// processes that it starts inherit it.
const asProgram = "EFACTOR_BENCH_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// start runs the program to its end.
func start(t *testing.T, args ...string) (out []byte, err error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(asProgram, "1")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return versus.Output(exec.CommandContext(ctx, self, args...))
}

// TestProgram: the smallest case from one end to the other, with a peer that is always
// there.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	out, err := start(t, "-json", "-short", "-rounds", "1", "-time", "1ms", "-cases", "^(match/8192|request/shm/8B)$", "-png", dir)
	require.NoError(t, err)
	lines := map[string]trial.Line{}
	for text := range strings.Lines(string(out)) {
		var l trial.Line
		require.NoError(t, json.Unmarshal([]byte(text), &l), text)
		lines[l.Case+" "+l.Peer] = l
	}
	for _, name := range []string{"match/8192 self", "request/shm/8B go-tcp", "request/shm/8B grpc", "request/shm/8B nats", "request/shm/8B protoactor"} {
		l := lines[name]
		assert.Positive(t, l.Ours, name)
		if assert.NotNil(t, l.Ratio, name) {
			assert.InEpsilon(t, l.Ours / *l.Theirs, *l.Ratio, 1e-9, name)
		}
	}
}

// TestJobs: the jobs of which TestProgram has none, as small as they can be.
func TestJobs(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(asProgram, "1")
	for name, j := range map[string]job.Job{
		"slice":      {Kind: job.PingPong, Device: "shm", Progress: "auto", Size: 100, Warm: 1, Count: 5, Timed: 5, Idle: 1},
		"alloc":      {Kind: job.PingPong, Device: "tcp", Progress: "manual", Size: 100_000, Warm: 1, Count: 5, Alloc: true},
		"unexpected": {Kind: job.PingPong, Device: "shm", Progress: "manual", Size: 8, Count: 5, Depth: 10, Came: true},
		"allreduce":  {Kind: job.Allreduce, Device: "shm", Progress: "auto", Size: 100, Warm: 1, Count: 5},
		"3 ranks":    {Kind: job.Allreduce, Device: "shm", Progress: "auto", Ranks: 3, Size: 100, Warm: 1, Count: 5},
		"each":       {Kind: job.Each, Device: "shm", Progress: "manual", Size: 8, Count: 200, Depth: 70},
		"each came":  {Kind: job.Each, Device: "shm", Progress: "manual", Size: 8, Count: 200, Depth: 70, Came: true, Random: true},
		"eager":      {Kind: job.Eager, Size: 8, Warm: 1, Count: 5},
		"copies":     {Kind: job.Copies, Size: 100_000, Depth: 3, Warm: 1, Count: 5},
	} {
		r, err := j.Run(t.Context(), self)
		require.NoError(t, err, name)
		assert.Positive(t, r.Nanos, name)
		if j.Timed > 0 {
			assert.LessOrEqual(t, r.Tails["p50"], r.Tails["p99.9"])
			assert.Positive(t, r.Tails["p50"])
		}
	}
	j := job.Job{Kind: job.IdleMany, Device: "shm", Progress: "auto", Ranks: 4, Idle: 1}
	_, err = j.Run(t.Context(), self)
	require.NoError(t, err)
	j = job.Job{Kind: job.Peers, Depth: 1000}
	r, err := j.Run(t.Context(), self)
	require.NoError(t, err)
	assert.Positive(t, r.Heap)
	for _, device := range []string{"sim", "shm", "tcp"} {
		j = job.Job{Kind: job.Allocations, Device: device}
		r, err = j.Run(t.Context(), self)
		require.NoError(t, err)
		assert.Contains(t, r.Allocs, "eager")
		assert.GreaterOrEqual(t, len(r.Allocs), 8, "subprotocols over %s: %v", device, r.Allocs)
	}
	j = job.Job{Kind: job.Stream, Device: "shm", Progress: "auto"}
	j.Plan.Size, j.Plan.Window, j.Plan.Batch, j.Plan.Buffers = 8, 4, 16, 4
	j.Plan.Messages(32)
	r, err = j.Run(t.Context(), self)
	require.NoError(t, err)
	require.NoError(t, r.Flow.Check(&j.Plan))
	j.Kind, j.Ranks = job.Fan, 4
	r, err = j.Run(t.Context(), self)
	require.NoError(t, err)
	require.NoError(t, r.Flow.Check(&j.Plan))
	j.Kind = "dance"
	_, err = j.Run(t.Context(), self)
	require.ErrorContains(t, err, "no such job")
}

// TestList: cases and their systems are named, and nothing is measured.
func TestList(t *testing.T) {
	out, err := start(t, "-list", "-cases", "idle/shm$")
	require.NoError(t, err)
	assert.Equal(t, "idle/shm (ms/s): go-unix go-tcp grpc nats protoactor\n", string(out))
	_, err = start(t, "-list", "-cases", "nothing-of-that-name")
	assert.ErrorContains(t, err, "no case matches")
}

func TestParse(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	assert.Equal(t, 5, o.rounds)
	assert.Less(t, o.limit, 15*time.Minute)
	o, err = parse([]string{"-short", "-rounds", "9"})
	require.NoError(t, err)
	assert.Equal(t, 9, o.rounds)
	assert.Less(t, o.limit, 2*time.Minute)
	for _, args := range []string{"-rounds -1", "-time -1s", "-limit -1s", "-cases (", "-progress fast", "more", "-unknown", "-merge", "-runs 0", "-busy -1", "-waiting -json"} {
		_, err := parse(strings.Fields(args))
		assert.Error(t, err, args)
	}
	_, err = parse([]string{"-h"})
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"short", "cases", "list", "rounds", "time", "limit", "progress", "json", "png", "merge", "waiting", "runs", "busy"} {
		assert.Contains(t, usage, "  -"+name+" ")
	}
}

// TestMerge: what a run prints is what -merge reads.
func TestMerge(t *testing.T) {
	out, err := start(t, "-json", "-short", "-rounds", "1", "-time", "1ms", "-cases", "^memory/")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "run.jsonl")
	require.NoError(t, os.WriteFile(file, out, 0o600))
	out, err = start(t, "-merge", file, file)
	require.NoError(t, err)
	assert.Contains(t, string(out), "\n| memory | efactor, B | self |\n")
	assert.Contains(t, string(out), "\n| latency/shm/8B | libfabric-shm | <= 0.8 | - | - | 0 | not measured |\n")
	_, err = start(t, "-merge", file, file+"-nowhere")
	require.ErrorContains(t, err, "nowhere")
	require.NoError(t, os.WriteFile(file, []byte("case unit peer\n"), 0o600))
	_, err = start(t, "-merge", file)
	require.ErrorContains(t, err, "run.jsonl: line 1")
}

// TestWakeUps: in a stream whose receiver computes for each message neither side is woken for each. Of several runs the
// one with the fewest counts, since in the others something else had the CPUs: on a quiet machine they are a quarter of the bounds.
func TestWakeUps(t *testing.T) {
	testenv.Long(t, "it counts how often threads sleep")
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(asProgram, "1")
	j := job.Job{Kind: job.Stream, Device: "shm", Progress: "auto"}
	j.Plan = flow.Plan{Size: 8, Window: 64, Batch: 256, Buffers: 64, Think: 20 * time.Microsecond}
	j.Plan.Messages(10_000)
	sender, receiver, calls := math.Inf(1), math.Inf(1), math.Inf(1)
	fits := func() bool { return sender < 0.3 && receiver < 0.5 && calls < 2 }
	for try := 0; try < 24 && !fits(); try++ {
		r, err := j.Run(t.Context(), self)
		require.NoError(t, err)
		t.Logf("%d messages: sender %+v, receiver %+v", r.Flow.Count, r.Flow.Sender, r.Flow.Receiver)
		each := func(n int) float64 { return float64(n) / float64(r.Flow.Count) }
		sender, receiver = min(sender, each(r.Flow.Sender.Switches)), min(receiver, each(r.Flow.Receiver.Switches))
		calls = min(calls, each(r.Flow.Sender.Calls+r.Flow.Receiver.Calls))
	}
	assert.True(t, fits(), "for a message: %.2f switches of the sender, %.2f of the receiver, %.2f system calls", sender, receiver, calls)
}

// TestWaiting: the table of several runs, with processes that compute beside.
func TestWaiting(t *testing.T) {
	out, err := start(t, "-waiting", "-runs", "2", "-rounds", "1", "-time", "1ms", "-busy", "1", "-cases", "^(request/shm/think/20us|json/64B|stream/slow-receiver)$")
	require.NoError(t, err)
	text := string(out)
	for _, name := range []string{"request/shm/think/20us", "request/shm/think/20us, p99", "json/64B"} {
		assert.Regexp(t, `\n\| `+name+` \| go-unix \| <= [0-9.]+ \| [0-9.]+ \| [0-9.]+ to [0-9.]+ \| 2 \| `, text)
	}
	assert.Regexp(t, `\n\| stream/slow-receiver \| - \| <= 21 \| [0-9.]+ \| [0-9.]+ to [0-9.]+ \| 2 \| `, text)
	assert.NotContains(t, text, "latency/shm")
}

func TestFamily(t *testing.T) {
	for name, want := range map[string][2]string{
		"latency/shm/64KiB":       {"latency/shm", ""},
		"bandwidth/shm/both/1MiB": {"bandwidth/shm", "both"},
		"rate/shm/8B/window4":     {"rate/shm", "window4"},
		"match/8192":              {"match/8192", ""},
		"idle":                    {"idle", ""},
	} {
		f, rest := family(name)
		assert.Equal(t, want, [2]string{f, rest}, name)
	}
}

// TestPlots: a file for each family that has a diagram, whatever was measured of it.
func TestPlots(t *testing.T) {
	outcome := func(name string, size int) *trial.Outcome {
		return &trial.Outcome{Case: &trial.Case{Name: name, Size: size}, Scores: []*trial.Score{
			{Ours: true, Value: []float64{1, 2, 3}}, {Name: "peer", Value: []float64{float64(size)}}, {Name: "out", Err: os.ErrInvalid},
		}}
	}
	p := &printer{outcomes: []*trial.Outcome{outcome("latency/shm/8B", 8), outcome("latency/shm/1MiB", 1<<20), outcome("bandwidth/tcp/8B", 8), outcome("match/64", 0)}}
	dir := filepath.Join(t.TempDir(), "plots")
	require.NoError(t, p.plots(dir))
	files, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	require.Equal(t, []string{dir + "/bandwidth-tcp.png", dir + "/latency-shm.png"}, files)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		image, err := png.Decode(f)
		require.NoError(t, err)
		assert.Greater(t, image.Bounds().Dx(), 100)
		require.NoError(t, f.Close())
	}
}
