package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/contest"
	"github.com/efactor/efactor/internal/testenv"
)

var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "stream-test")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "stream")
		return m.Run()
	}())
}

var build = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "build", "-o", program, ".").CombinedOutput()
})

// start runs the program to its end.
func start(t *testing.T, args string) (out string, err error) {
	t.Helper()
	text, err := build()
	require.NoError(t, err, string(text))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := versus.Output(exec.CommandContext(ctx, program, strings.Fields(args)...))
	return string(b), err
}

// measured runs the program and gives the results by system.
func measured(t *testing.T, args string) map[string][]contest.Result {
	t.Helper()
	out, err := start(t, args+" -json")
	require.NoError(t, err)
	var r struct {
		Machine versus.Machine
		Results []contest.Result
	}
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	assert.NotEmpty(t, r.Machine.Kernel)
	results := map[string][]contest.Result{}
	for _, x := range r.Results {
		results[x.System] = append(results[x.System], x)
		assert.Positive(t, x.Rate.Min)
		assert.LessOrEqual(t, x.Rate.Min, x.Rate.Median)
		assert.LessOrEqual(t, x.Rate.Median, x.Rate.Max)
		assert.InDelta(t, x.Rate.Median*float64(x.Bytes)/1e9, x.GBps.Median, 1e-6)
	}
	return results
}

// TestKinds: each device, one way and both, tagged and not, with both kinds of buffers.
func TestKinds(t *testing.T) {
	for _, args := range []string{"", "-tagged", "-bidir", "-tagged -bidir -buffers 1", "-window 1", "-window 16 -batch 16", "-device tcp", "-device sim -bidir"} {
		t.Run(args, func(t *testing.T) {
			results := measured(t, args+" -peers= -sizes 8,5k,300k -count 100 -rounds 1 -mem alloc,plain")
			require.Len(t, results, 2)
			for _, system := range []string{"efactor alloc", "efactor plain"} {
				require.Len(t, results[system], 3)
				for i, size := range []int{8, 5 << 10, 300 << 10} {
					assert.Equal(t, size, results[system][i].Bytes)
					assert.GreaterOrEqual(t, results[system][i].Count, 100)
				}
			}
		})
	}
}

// TestPeers: the other systems do the same, and their messages are right, or they would
// have no result.
func TestPeers(t *testing.T) {
	testenv.NeedAll(t, "other systems' programs")
	for _, peer := range []string{contest.Libfabric, contest.MPICH} { // package peers tests Open MPI
		_, err := contest.Compile(t.Context(), t.TempDir(), peer)
		if errors.Is(err, versus.ErrAbsent) {
			testenv.Missing(t, "%v", err)
		}
		require.NoError(t, err)
	}
	for _, args := range []string{"", "-tagged -bidir"} {
		results := measured(t, args+" -peers libfabric,mpich -sizes 0,8,20k -count 50 -rounds 1 -window 8")
		require.Len(t, results, 3)
		for _, system := range []string{"efactor alloc", "libfabric shm", "MPICH"} {
			assert.Len(t, results[system], 3, system)
		}
	}
}

// TestText: the table that people see, and how many messages are made of a time.
func TestText(t *testing.T) {
	out, err := start(t, "-peers= -sizes 8,1m -time 1ms -rounds 3 -mem plain,alloc")
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^# Linux .* cores
# commit .*, go1\.\d+.*
# one way, untagged, window 64, answers after 256, 64 buffers; device shm, .*
# .*
   bytes +efactor plain +efactor alloc +/efactor alloc
       8   M/s +\d+\.\d\d \(\d+\.\d\d\.\.\d+\.\d\d\) .* \d+\.\d\d
      1m  GB/s +\d+\.\d\d \(\d+\.\d\d\.\.\d+\.\d\d\) .* \d+\.\d\d
# load average after: .*
$`, out)
}

// TestProfile: both processes leave one.
func TestProfile(t *testing.T) {
	at := filepath.Join(t.TempDir(), "cpu")
	_, err := start(t, "-peers= -sizes 8 -count 1000 -rounds 1 -cpuprofile "+at)
	require.NoError(t, err)
	assert.FileExists(t, at+".0")
	assert.FileExists(t, at+".1")
}

func TestBadFlags(t *testing.T) {
	for _, args := range []string{
		"-sizes x", "-mem heap", "-mem=", "-peers ucx", "-window 0", "-batch 65", "-buffers 65", "-rounds 0", "-time 0s", "-progress fast",
	} {
		_, err := start(t, args)
		assert.Error(t, err, args)
	}
}
