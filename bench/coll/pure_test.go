package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/versus"
)

func TestParse(t *testing.T) {
	o, err := parse(nil)
	require.NoError(t, err)
	assert.Equal(t, "allreduce", o.ops[0].name)
	assert.Len(t, o.ops, 1)
	o, err = parse(strings.Fields("-op all -b 64k -e 1k -n 3 -type int32 -buffers alloc,slice"))
	require.NoError(t, err)
	assert.Len(t, o.ops, len(operations))
	assert.Equal(t, o.first, o.last, "a last size below the first one is that")
	for _, args := range []string{
		"-op allgreat", "-b x", "-f 1", "-n -1", "-w -2", "-ranks 0", "-rounds 0", "-type string", "-redop avg",
		"-buffers pool", "-progress fast", "more", "-unknown",
	} {
		_, err := parse(strings.Fields(args))
		assert.Error(t, err, args)
	}
	_, err = parse([]string{"-h"})
	assert.ErrorIs(t, err, flag.ErrHelp)
	for _, flag := range []string{"op", "b", "e", "f", "n", "w", "c", "type", "redop", "buffers", "alg", "ranks", "device", "progress", "json", "png", "cpuprofile", "mpich", "rounds"} {
		assert.Contains(t, usage, "-"+flag)
	}
}

func TestIterations(t *testing.T) {
	for _, c := range []struct {
		o           options
		one         time.Duration
		warm, iters int
	}{
		{options{warm: -1}, time.Microsecond, 5000, 50_000},
		{options{warm: -1}, 0, 5000, 50_000},
		{options{warm: -1}, time.Millisecond, 30, 300},
		{options{warm: -1}, time.Minute, 2, 10},
		{options{iters: 7, warm: 0}, time.Microsecond, 0, 7},
		{options{iters: 7, warm: -1}, time.Hour, 2, 7},
	} {
		warm, iters := c.o.iterations(c.one)
		assert.Equal(t, []int{c.warm, c.iters}, []int{warm, iters}, "%+v", c)
	}
}

// TestFactors: those of nccl-tests' doc/PERFORMANCE.md.
func TestFactors(t *testing.T) {
	for _, op := range operations {
		want := map[string]float64{
			"allreduce": 1.5, "reducescatter": 0.75, "allgather": 0.75, "alltoall": 0.75, "gather": 0.75, "scatter": 0.75,
			"bcast": 1, "reduce": 1, "scan": 1, "barrier": 1,
		}[op.name]
		assert.InDelta(t, want, op.factor(4), 1e-9, op.name)
	}
	assert.InDelta(t, 1, operations[0].factor(2), 1e-9)
}

func TestSummary(t *testing.T) {
	calls := make([]time.Duration, 100)
	for i := range calls {
		calls[i] = time.Duration(100-i) * time.Microsecond
	}
	r := &result{Size: 100_000}
	r.summary(calls, 50*time.Microsecond, 1.5)
	assert.Equal(t, []float64{50, 1, 50, 99}, []float64{r.Avg, r.Min, r.P50, r.P99})
	assert.InDelta(t, 2, r.AlgBW, 1e-9, "100 KB in 50 us are 2 GB/s")
	assert.InDelta(t, 3, r.BusBW, 1e-9)
}

func TestTable(t *testing.T) {
	var b strings.Builder
	writeHead(&b, "allreduce", "alloc")
	wrong := int64(0)
	writeLine(&b, &result{Size: 16 << 20, Count: 4 << 20, Type: "float32", Redop: "sum", Algorithm: "rabenseifner", Avg: 3000.5, Min: 2900, P99: 4123.456, AlgBW: 5.59, BusBW: 8.389, Wrong: &wrong})
	writeLine(&b, &result{Size: 8, Count: 2, Type: "float32", Redop: "none", Algorithm: "binomial", Avg: 1.234, Min: 1, P99: 123.44})
	assert.Equal(t, `
# allreduce, buffers: alloc
#       size        count     type redop  algorithm                    avg       min       p99    algbw    busbw  #wrong
#        (B)   (elements)                                             (us)      (us)      (us)   (GB/s)   (GB/s)        
    16777216      4194304  float32   sum  rabenseifner                3000      2900      4123     5.59     8.39       0
           8            2  float32  none  binomial                    1.23      1.00     123.4     0.00     0.00     N/A
`, b.String())
}

func TestJSON(t *testing.T) {
	wrong := int64(3)
	in := report{environment{Machine: versus.Machine{Kernel: "Linux 6"}, Ranks: 2}, []*result{{Op: "bcast", Size: 8, Avg: 1.5, Wrong: &wrong}, {Op: "scan"}}}
	var b bytes.Buffer
	require.NoError(t, in.write(&b))
	var out report
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&out))
	assert.Equal(t, in, out)
}

// TestPlot: measurements can be drawn, and so can an empty list.
func TestPlot(t *testing.T) {
	for name, results := range map[string][]*result{
		"nothing":  nil,
		"no sizes": {{Op: "barrier", Avg: 2}},
		"one":      {{Op: "allreduce", Size: 8, Avg: 2, BusBW: 0.004}},
		"many":     {{Op: "allreduce", Size: 8, Avg: 2, BusBW: 0.004}, {Op: "allreduce", Size: 1 << 30, Avg: 9e5, BusBW: 7}, {Op: "scan", Size: 64, Avg: 3, BusBW: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			require.NoError(t, drawPlot(&b, results, environment{Machine: versus.Machine{CPU: "a CPU"}, Ranks: 2, Device: "shm"}))
			img, err := png.Decode(&b)
			require.NoError(t, err)
			assert.Greater(t, img.Bounds().Dx(), 1000)
			assert.Greater(t, img.Bounds().Dy(), 400)
		})
	}
}

// TestScore: the verdict is on medians; bandwidth counts the other way round.
func TestScore(t *testing.T) {
	rounds := func(avgs ...float64) (list []*result) {
		for _, a := range avgs {
			list = append(list, &result{Algorithm: "x", Avg: a, P50: a})
		}
		return list
	}
	mpich := newScore(rounds(10, 900, 8))
	assert.Equal(t, score{algorithm: "x", median: 10, best: 8, p50: 10}, mpich)
	for _, c := range []struct {
		contest contest
		ours    float64
		want    string
	}{
		{contest{size: 8, target: 1.5}, 15, "met"},
		{contest{size: 8, target: 1.5}, 16, "missed"},
		{contest{size: 1 << 20, bandwidth: true, target: 2}, 5, "met"},
		{contest{size: 1 << 20, bandwidth: true, target: 2}, 6, "missed"},
	} {
		var b strings.Builder
		writeScore(&b, c.contest, "alloc", newScore(rounds(c.ours)), mpich)
		assert.Contains(t, b.String(), c.want)
	}
	wrong := int64(2)
	var b strings.Builder
	writeScore(&b, contest{size: 8, target: 2}, "alloc", newScore([]*result{{Avg: 1, P50: 1, Wrong: &wrong}}), mpich)
	assert.Contains(t, b.String(), "2 WRONG")
}
