package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/internal/versus"
)

// contest is an Allreduce of float32 that both systems do, and the target.
type contest struct {
	ranks, size, warmup, iters int

	bandwidth bool    // target is of the bandwidth, at least; else of the time, at most
	target    float64 // times MPICH's
}

// contests are the lines of the comparison: at 8 bytes the time, at 16 MiB the bandwidth.
var contests = []contest{
	{ranks: 2, size: 8, warmup: 50000, iters: 500000, target: 1.5},
	{ranks: 2, size: 16 << 20, warmup: 3, iters: 20, bandwidth: true, target: 1},
	{ranks: 4, size: 8, warmup: 10, iters: 100, target: 0.05},
	{ranks: 4, size: 16 << 20, warmup: 2, iters: 8, bandwidth: true, target: 2},
}

// rival is one of the systems compared.
type rival struct {
	name string
	// run gives the results of one round, by name; more than one if the system has
	// more than one way.
	run func(context.Context, contest) (map[string]*result, error)
}

// versus measures MPICH and efactor, which is the program self, in turns, and prints the
// ratios.
func (o *options) versus(ctx context.Context, w io.Writer, self string, list []contest) error {
	dir, err := os.MkdirTemp("", "efactor-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := mpi.MPICH.Compile(ctx, dir, "allreduce", mpi.Allreduce)
	if err != nil {
		return err
	}
	rivals := []rival{
		{"MPICH", func(ctx context.Context, c contest) (map[string]*result, error) { return runMPI(ctx, program, c) }},
		{"efactor", func(ctx context.Context, c contest) (map[string]*result, error) { return o.runSelf(ctx, self, c) }},
	}
	fmt.Fprintf(w, "%s\n# %s\n# Allreduce, float32, sum; %d rounds, systems in turns; load average before: %s\n",
		versus.Here(), mpi.MPICH.Version(ctx), o.rounds, versus.Load())
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ranks\tsize\tsystem\talgorithm\tmedian us\tbest\tp50\tGB/s\tratio\tof best\tof p50\ttarget\t\t")
	for _, c := range list {
		rounds := map[string][]*result{}
		err := versus.Turns(o.rounds, len(rivals), func(_, i int) error {
			results, err := rivals[i].run(ctx, c)
			if err != nil {
				return fmt.Errorf("%s, %d ranks, %d B: %w", rivals[i].name, c.ranks, c.size, err)
			}
			for name, res := range results {
				rounds[name] = append(rounds[name], res)
			}
			return nil
		})
		if err != nil {
			return err
		}
		base := newScore(rounds["MPICH"])
		for _, name := range []string{"MPICH", "alloc", "slice"} {
			writeScore(table, c, name, newScore(rounds[name]), base)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "# load average after: %s; where others run, times of programs that spin mean little\n", versus.Load())
	return err
}

// score is the result of a system's rounds.
type score struct {
	algorithm         string
	median, best, p50 float64 // us; median and best of the rounds' averages
	wrong             int64
}

func newScore(rounds []*result) (s score) {
	var avg, p50 []float64
	for _, r := range rounds {
		avg, p50 = append(avg, r.Avg), append(p50, r.P50)
		s.algorithm = r.Algorithm
		if r.Wrong != nil {
			s.wrong += *r.Wrong
		}
	}
	slices.Sort(avg)
	slices.Sort(p50)
	s.median, s.best, s.p50 = versus.Percentile(avg, 50), avg[0], versus.Percentile(p50, 50)
	return s
}

func writeScore(w io.Writer, c contest, name string, s, base score) {
	ratio := func(ours, theirs float64) float64 {
		if c.bandwidth {
			return theirs / ours // same size, so the inverse of times
		}
		return ours / theirs
	}
	target, verdict := "", ""
	if name == "alloc" {
		sign, met := "<=", ratio(s.median, base.median) <= c.target
		if c.bandwidth {
			sign, met = ">=", ratio(s.median, base.median) >= c.target
		}
		target, verdict = fmt.Sprintf("%s %.2f", sign, c.target), "missed"
		if met {
			verdict = "met"
		}
	}
	if name != "MPICH" {
		name = "efactor " + name
	}
	if s.wrong != 0 {
		verdict = fmt.Sprintf("%d WRONG", s.wrong)
	}
	bytes := versus.Size(c.size)
	fmt.Fprintf(w, "%d\t%v\t%s\t%s\t%s\t%s\t%s\t%.2f\t%.3f\t%.3f\t%.3f\t%s\t%s\t\n", c.ranks, &bytes, name, s.algorithm,
		versus.Digits(s.median), versus.Digits(s.best), versus.Digits(s.p50), float64(c.size)/s.median/1000,
		ratio(s.median, base.median), ratio(s.best, base.best), ratio(s.p50, base.p50), target, verdict)
}

// runMPI is a round of MPICH.
func runMPI(ctx context.Context, program string, c contest) (map[string]*result, error) {
	command := mpi.MPICH.Command(c.ranks, program)
	out, err := versus.Output(exec.CommandContext(ctx, command[0], append(command[1:],
		strconv.Itoa(c.size), strconv.Itoa(c.warmup), strconv.Itoa(c.iters))...))
	if err != nil {
		return nil, err
	}
	r := &result{Algorithm: "-"}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("unexpected output %q: %w", out, err)
	}
	if r.Size != c.size || r.Avg <= 0 {
		return nil, fmt.Errorf("unexpected result %q", out)
	}
	return map[string]*result{"MPICH": r}, nil
}

// runSelf is a round of this program, with both kinds of buffers.
func (o *options) runSelf(ctx context.Context, self string, c contest) (map[string]*result, error) {
	bytes := strconv.Itoa(c.size)
	out, err := versus.Output(exec.CommandContext(ctx, self, "-json", "-ranks", strconv.Itoa(c.ranks), "-op", "allreduce",
		"-type", "float32", "-redop", "sum", "-b", bytes, "-e", bytes, "-n", strconv.Itoa(c.iters), "-w", strconv.Itoa(c.warmup),
		"-buffers", "alloc,slice", "-device", o.device, "-progress", o.progress, "-alg", o.alg))
	if err != nil {
		return nil, err
	}
	var all report
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("unexpected output %q: %w", out, err)
	}
	results := map[string]*result{}
	for _, r := range all.Results {
		results[r.Buffers] = r
	}
	if len(results) != 2 {
		return nil, fmt.Errorf("unexpected result %q", out)
	}
	return results, nil
}
