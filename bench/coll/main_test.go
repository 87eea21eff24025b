package main

import (
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/internal/testenv"
)

var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "coll-test")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "coll")
		return m.Run()
	}())
}

var build = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "build", "-o", program, ".").CombinedOutput()
})

// start runs the program, under another one if there is a prefix.
func start(t *testing.T, prefix []string, args string) string {
	t.Helper()
	out, err := build()
	require.NoError(t, err, string(out))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := append(append(prefix, program), strings.Fields(args)...)
	text, err := versus.Output(exec.CommandContext(ctx, command[0], command[1:]...))
	require.NoError(t, err)
	return string(text)
}

func parseReport(t *testing.T, text string) *report {
	t.Helper()
	r := new(report)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(r), text)
	for _, v := range r.Results {
		if assert.NotNil(t, v.Wrong, "%+v", v) {
			assert.Zero(t, *v.Wrong, "%+v", v)
		}
		assert.Positive(t, v.Avg)
		assert.Positive(t, v.Min)
		assert.LessOrEqual(t, v.Min, v.P50)
		assert.LessOrEqual(t, v.P50, v.P99)
		assert.NotEmpty(t, v.Algorithm, "%+v", v)
	}
	return r
}

// TestAll: every operation, checked, with both kinds of buffers; and the output.
func TestAll(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "coll.png")
	r := parseReport(t, start(t, nil, "-op all -ranks 3 -b 0 -e 300k -f 64 -n 3 -w 1 -buffers alloc,slice -json -png "+picture))
	env := r.Environment
	assert.Equal(t, 3, env.Ranks)
	for _, s := range []string{env.Kernel, env.CPU, env.Device, env.Progress, env.Launcher, env.Commit, env.Go} {
		assert.NotEmpty(t, s)
	}
	assert.Equal(t, "default.pgo", env.Profile)
	seen := map[string]int{}
	for _, v := range r.Results {
		seen[v.Op+" "+v.Buffers]++
		assert.Equal(t, 3, v.Iters)
		assert.Equal(t, v.Size, 4*v.Count)
	}
	for _, op := range operations {
		for _, kind := range []string{"alloc", "slice"} {
			want := 5 // 0, 1, 64, 4096 and 262144 B
			if op.name == "barrier" {
				want = 1
			}
			assert.Equal(t, want, seen[op.name+" "+kind], "%s %s", op.name, kind)
		}
	}
	f, err := os.Open(picture)
	require.NoError(t, err)
	defer f.Close()
	_, err = png.Decode(f)
	require.NoError(t, err)
}

func TestTypes(t *testing.T) {
	for _, args := range []string{"-type float64 -redop prod", "-type int32 -redop min", "-type int64 -redop max", "-type uint8 -redop sum"} {
		t.Run(args, func(t *testing.T) {
			r := parseReport(t, start(t, nil, args+" -op allreduce,scan,reducescatter -b 1k -e 1k -n 2 -json"))
			assert.Len(t, r.Results, 3)
		})
	}
}

// TestText: the table that people see.
func TestText(t *testing.T) {
	text := start(t, nil, "-b 8 -e 128 -n 10")
	assert.Regexp(t, regexp.MustCompile(`(?s)^# Linux .* cores
# commit .*, go1\.\d+.*
# 2 ranks, device .*, progress .*
# launcher .*

# allreduce, buffers: alloc
#       size .* #wrong
#        \(B\) .*
           8            2  float32   sum  \S+ .*       0
          32            8  float32   sum  \S+ .*       0
         128           32  float32   sum  \S+ .*       0
$`), text)
	text = start(t, nil, "-b 8 -e 8 -n 10 -c=false -ranks 1")
	assert.Regexp(t, `(?m)^ +8 .* N/A$`, text)
}

// TestForced: the algorithm can be chosen.
func TestForced(t *testing.T) {
	for _, alg := range []string{"ring", "recursive-doubling"} {
		r := parseReport(t, start(t, nil, "-ranks 4 -b 4k -e 4k -n 2 -json -alg "+alg))
		require.Len(t, r.Results, 1)
		assert.Equal(t, alg, r.Results[0].Algorithm)
	}
}

// TestWrong: elements that are not right are counted.
func TestWrong(t *testing.T) {
	w := &work[int32]{redop: "sum", part: 4, out: []int32{0, 1, 2, 3}, op: operation{name: "bcast"}}
	assert.Zero(t, countWrong(w.out, func(i int) int32 { return w.element(0, i) }))
	w.out[1], w.out[3] = 7, 0
	assert.Equal(t, int64(2), countWrong(w.out, func(i int) int32 { return w.element(0, i) }))
}

// needMPICH ends a test that needs mpich.
func needMPICH(t *testing.T) {
	testenv.NeedAll(t, "mpich")
	for _, tool := range []string{mpi.MPICH.Compiler(), mpi.MPICH.Launcher()} {
		if _, err := exec.LookPath(tool); err != nil {
			testenv.Missing(t, "no mpich here: %v", err)
		}
	}
}

// TestUnderMPI: the program as mpiexec starts it.
func TestUnderMPI(t *testing.T) {
	needMPICH(t)
	r := parseReport(t, start(t, []string{mpi.MPICH.Launcher(), "-n", "3"}, "-op allreduce,alltoall -b 1k -e 1k -n 3 -json"))
	assert.Equal(t, 3, r.Environment.Ranks)
	assert.Len(t, r.Results, 2)
}

// TestVersus: a short comparison has all its lines, and right results on both sides.
func TestVersus(t *testing.T) {
	needMPICH(t)
	out, err := build()
	require.NoError(t, err, string(out))
	o, err := parse([]string{"-mpich", "-rounds", "2"})
	require.NoError(t, err)
	list := []contest{
		{ranks: 2, size: 8, warmup: 10, iters: 200, target: 1.5},
		{ranks: 3, size: 1 << 20, warmup: 1, iters: 2, bandwidth: true, target: 1},
	}
	var b strings.Builder
	require.NoError(t, o.versus(t.Context(), &b, program, list))
	text := b.String()
	assert.Contains(t, text, "# MPICH ")
	assert.NotContains(t, text, "WRONG")
	for _, c := range []string{`2 +8`, `3 +1m`} {
		for _, system := range []string{`MPICH`, `efactor alloc .* (met|missed)`, `efactor slice`} {
			assert.Regexp(t, fmt.Sprintf(`(?m)^ *%s +%s`, c, system), text)
		}
	}
}
