package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

// Runner measures cases.
type Runner struct {
	Rounds  int
	Time    time.Duration // that a run's operations take, about
	Timeout time.Duration // of a run; a contestant that takes longer is out
	Until   clock.Time    // no case begins later
	Log     io.Writer     // for people who wait
	// Apart measures how far from each other the CPUs are, in ns, before and after each run; 0: unknown. May be nil.
	Apart func() float64
}

// ErrLate is the error of All if there was no time for every case.
var ErrLate = errors.New("no time left")

// All measures one case after the other and gives each outcome to report. The cases for
// which no time is left are named in the error.
func (r *Runner) All(ctx context.Context, cases []Case, report func(*Outcome) error) error {
	began := clock.System.Now()
	all := r.effort(cases)
	for i := range cases {
		c, now := &cases[i], clock.System.Now()
		if now > r.Until {
			late := []string{}
			for _, c := range cases[i:] {
				late = append(late, c.Name)
			}
			return fmt.Errorf("%w for %v", ErrLate, late)
		}
		left := remaining(now.Sub(began), all-r.effort(cases[i:]), all, r.Until.Sub(now))
		fmt.Fprintf(r.Log, "%3d/%d  %4.0fs, %s left  %s: %d systems\n", i+1, len(cases), now.Sub(began).Seconds(), left, c.Name, c.systems())
		part := r.Until.Sub(now) / time.Duration(len(cases)-i)
		o, err := r.Run(ctx, c, now.Add(part))
		if err != nil {
			return err
		}
		if err := report(o); err != nil {
			return err
		}
	}
	return nil
}

// errEnough ends the rounds of a case that has had its part of the time.
var errEnough = errors.New("no further round")

// Run measures a case. No round but the first begins after until, so that all cases have
// their part of the time on a slow machine. Contestants that fail have no part in further
// rounds; the error is that of the context alone.
func (r *Runner) Run(ctx context.Context, c *Case, until clock.Time) (*Outcome, error) {
	o := newOutcome(c)
	began := -1 // the last round that has
	for _, s := range o.Scores {
		s.n = 1
		if c.Pilot > 0 {
			r.once(ctx, s, c.Pilot, r.pilot)
		}
	}
	err := versus.Turns(c.RoundsOf(r.Rounds), len(o.Scores), func(round, i int) error {
		if round > began && round > 0 && clock.System.Now() > until {
			return errEnough
		}
		began = round
		s := o.Scores[i]
		if s.Err == nil {
			r.once(ctx, s, s.n, (*Score).add)
		}
		return ctx.Err()
	})
	o.Rounds = began + 1
	if errors.Is(err, errEnough) {
		err = nil
	}
	return o, err
}

// once has a contestant do n operations, and gives the sample to use.
func (r *Runner) once(ctx context.Context, s *Score, n int, use func(*Score, Sample)) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	r.look(s)
	sample, err := s.contestant.Run(ctx, n)
	r.look(s)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		s.Err = fmt.Errorf("not done after %v: %w", r.Timeout, ctx.Err())
	case err != nil:
		s.Err = err
	case !(sample.Value > 0 || s.zero && sample.Value == 0):
		s.Err = fmt.Errorf("unexpected figure %v", sample.Value)
	default:
		use(s, sample)
	}
}

// look notes how far from each other the CPUs are now.
func (r *Runner) look(s *Score) {
	if r.Apart == nil {
		return
	}
	if ns := r.Apart(); ns > 0 {
		s.apart = append(s.apart, ns)
	}
}

// most is how many operations a run has at most.
const most = 1_000_000

// pilot sets how many operations fill the time.
func (r *Runner) pilot(s *Score, sample Sample) {
	s.n = min(max(int(r.Time/max(sample.Each, 1)), least), most)
}

const least = 8
