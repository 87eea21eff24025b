package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/merge"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/suite"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	// listening is for how long the machine is looked at before and after.
	listening = 300 * time.Millisecond
	// timeout is that of one run of one system.
	timeout = 15 * time.Second
)

// run measures and prints.
func (o *options) run(ctx context.Context, out, log io.Writer) error {
	began := clock.System.Now()
	dir, err := os.MkdirTemp("", "efactor-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	found, missing := peers.Find(ctx, dir)
	s := suite.Suite{Self: self, Short: o.short, Rounds: o.allRounds, Progress: o.progress, Peers: found}
	if s.Emulated(o.cases) {
		e, err := peers.Emulate(ctx, dir)
		if err != nil {
			missing = append(missing, peers.Missing{Name: "the emulated EFA device", Err: err})
		} else {
			defer e.Close()
			s.Emulator = e.Command
			if p, err := e.Libfabric(); err == nil { // else it is missing already
				s.Peers = append(s.Peers, p)
			}
		}
	}
	cases := s.Cases(o.cases)
	if o.waiting {
		cases = s.Toward(merge.Waiting, o.cases)
	}
	if len(cases) == 0 {
		return fmt.Errorf("no case matches %q", o.cases)
	}
	if o.list {
		return list(out, cases)
	}
	p := &printer{options: o, out: out, notes: out}
	if o.json {
		p.notes = log
	}
	if o.waiting {
		p.out, p.notes = log, log
	}
	stop, err := o.compute(self)
	if err != nil {
		return err
	}
	defer stop()
	p.head(peers.Versions(ctx), missing)
	r := trial.Runner{Rounds: o.rounds, Time: o.time, Timeout: timeout, Until: began.Add(o.limit), Log: log, Apart: versus.Apart}
	if o.waiting {
		return p.several(ctx, &r, cases, out)
	}
	if err := p.all(ctx, &r, cases); err != nil {
		return err
	}
	p.warn(false)
	if o.png != "" {
		if err := p.plots(o.png); err != nil {
			return err
		}
	}
	return p.failed
}

// all measures the cases, as far as there is time.
func (p *printer) all(ctx context.Context, r *trial.Runner, cases []trial.Case) error {
	err := r.All(ctx, cases, p.outcome)
	if errors.Is(err, trial.ErrLate) {
		fmt.Fprintf(p.notes, "# NOT MEASURED: %v\n", err)
		return nil
	}
	return err
}

// several measures the cases in several runs, each with its own limit, and writes what they came to.
func (p *printer) several(ctx context.Context, r *trial.Runner, cases []trial.Case, out io.Writer) error {
	var runs []merge.Run
	var loads []string
	for i := range p.runs {
		loads = append(loads, versus.Load())
		fmt.Fprintf(p.notes, "# run %d of %d, load average %s\n", i+1, p.runs, loads[i])
		p.outcomes, r.Until = nil, clock.System.Now().Add(p.limit)
		if err := p.all(ctx, r, cases); err != nil {
			return err
		}
		var run merge.Run
		for _, o := range p.outcomes {
			run = append(run, o.Lines()...)
		}
		runs = append(runs, run)
	}
	p.warn(false)
	m := versus.Here()
	fmt.Fprintf(out, "Commit %s, %s, %s, %d CPUs, %d processes that compute beside; load average before each run: %s.\n\n",
		m.Commit, m.Go, m.CPU, m.Cores, p.busy, strings.Join(loads, ", "))
	return errors.Join(merge.Write(out, runs, p.cases, p.aims()), p.failed)
}

// aims are those of the table of several runs.
func (o *options) aims() merge.Aims {
	if o.waiting {
		return merge.Waiting
	}
	return merge.Figures
}

// compute starts the processes that compute beside what is measured.
func (o *options) compute(self string) (stop func(), err error) {
	var list []*exec.Cmd
	stop = func() {
		for _, cmd := range list {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	command, err := (&job.Job{Kind: job.Busy}).Command(self)
	if err != nil {
		return nil, err
	}
	for range o.busy {
		cmd := exec.Command(command[0], command[1:]...)
		if _, err := cmd.StdinPipe(); err != nil { // which ends with this process, and the other one with it
			stop()
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			stop()
			return nil, err
		}
		list = append(list, cmd)
	}
	return stop, nil
}

// list names the cases and their systems.
func list(out io.Writer, cases []trial.Case) error {
	for i := range cases {
		c := &cases[i]
		fmt.Fprintf(out, "%s (%s):", c.Name, c.Unit)
		for _, p := range c.Peers {
			fmt.Fprintf(out, " %s", p.Name)
		}
		fmt.Fprintln(out)
	}
	return nil
}

// printer writes what comes out.
type printer struct {
	*options
	out, notes io.Writer
	outcomes   []*trial.Outcome
	failed     error // efactor itself did, in some case
}

func (p *printer) head(versions []string, missing []peers.Missing) {
	fmt.Fprintf(p.notes, "%v\n# %d rounds of about %v, systems in turns; medians (least..most), ratio of efactor's figure to the peer's;\n", versus.Here(), p.rounds, p.time)
	fmt.Fprintln(p.notes, "# p: of such a difference, or a larger one, if there were none (Mann-Whitney); ~: it may be chance")
	fmt.Fprintf(p.notes, "# here are %s; Go libraries as in go.mod\n", strings.Join(versions, ", "))
	for _, m := range missing {
		fmt.Fprintf(p.notes, "# WITHOUT %s: %v\n", m.Name, m.Err)
	}
	fmt.Fprintln(p.notes, "# NOT COMPARED:", suite.Lacking)
	p.warn(true)
	if !p.json {
		trial.WriteHead(p.out)
	}
}

// warn says what is wrong with the machine, before or after the run.
func (p *printer) warn(before bool) {
	for _, w := range versus.Listen(listening).Warnings(before) {
		fmt.Fprintln(p.notes, "# WARNING:", w)
	}
}

func (p *printer) outcome(o *trial.Outcome) error {
	lines := o.Lines()
	p.outcomes = append(p.outcomes, o)
	trial.WriteFailures(p.notes, o)
	if n := o.Case.RoundsOf(p.rounds); o.Rounds < n {
		fmt.Fprintf(p.notes, "# %s: %d of %d rounds, for lack of time\n", o.Case.Name, o.Rounds, n)
	}
	for _, s := range o.Scores {
		if s.Ours && s.Err != nil {
			p.failed = fmt.Errorf("efactor failed in %s%s: %w", o.Case.Name, s.Name, s.Err)
		}
	}
	if !p.json {
		trial.WriteLines(p.out, lines)
		return nil
	}
	e := json.NewEncoder(p.out)
	for i := range lines {
		if err := e.Encode(&lines[i]); err != nil {
			return err
		}
	}
	return nil
}
