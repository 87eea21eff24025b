package death

import (
	"context"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// step is one step of a machine in a play: the nth time that the side whose machine it is
// took the pair.
type step struct {
	side int // 0: the requester, 1: the target
	pair int // in the order of the tables
	nth  uint64
}

// run is a play, played once.
type run struct {
	play *play
	cold bool // the two have never talked before
	w    *efatest.World
	a, b *side

	fault  *fault // nil: none
	victim *side
	at     step

	armed    bool
	fired    bool
	struckAt time.Duration
	back     *side // the one that took the victim's address

	steps   []step // that were taken, without a fault
	outcome time.Duration
	clean   time.Duration
	hits    []uint64 // how often each pair came, on both sides
	bad     []string
}

func (r *run) badf(format string, args ...any) { r.bad = append(r.bad, fmt.Sprintf(format, args...)) }

// slack is what the fabric and the timers add to a bound.
const slack = 100 * time.Millisecond

// rnrMax is the longest back-off of the settings that the sides have.
const rnrMax = time.Second

// limit is how long after a fault everything must have had its outcome.
func (r *run) limit() time.Duration {
	switch f := r.fault; {
	case f == nil:
		return slack
	case f.mild: // a back-off that began before its end may last RNRMax
		return f.lasts + rnrMax + slack
	default:
		return f.lasts + patience + probe + slack
	}
}

// deadline is the end of that.
func (r *run) deadline() time.Duration {
	if r.fault != nil && !r.fired {
		return r.struckAt + time.Minute // it will, or the row is reported
	}
	return r.struckAt + r.limit()
}

// alive are the sides that live.
func (r *run) alive() []*side {
	var list []*side
	for _, s := range []*side{r.a, r.b} {
		if !s.gone && !s.closed {
			list = append(list, s)
		}
	}
	return list
}

// newRun opens both sides.
func newRun(p *play, cold bool, f *fault, victim int, at step) *run {
	r := &run{play: p, cold: cold, fault: f, at: at}
	var err error
	r.w, err = efatest.New(efatest.Config{Seed: 1, Fabric: efatest.FabricConfig{
		MTU: mtu, Delay: 5 * time.Microsecond, Jitter: 5 * time.Microsecond, ReportGone: f != nil && f.told,
		Unresponsive: 5 * time.Millisecond,
	}})
	must(err)
	r.a, r.b = r.open("requester", efa.RawAddr{}), r.open("target", efa.RawAddr{})
	r.a.to, r.b.to = r.a.knows(r.b), r.b.knows(r.a)
	if p.slow {
		_, err := r.w.Fabric().AddRule(efatest.Rule{
			Fault: efatest.FaultLateStatus, Delay: 100 * time.Microsecond, From: place(r.a.raw),
		})
		must(err)
	}
	r.victim = []*side{r.a, r.b}[victim]
	for i, s := range []*side{r.a, r.b} {
		s.seam.look = func() { r.look(i, s) }
	}
	return r
}

// all plays the play to its end and judges it.
func (r *run) all() {
	if !r.cold {
		r.greet(r.a, r.b, 1)
	}
	r.pass(time.Millisecond) // receive slots are posted, and HANDSHAKE is there, too
	r.a.deeds, r.b.deeds = nil, nil
	for _, s := range []*side{r.a, r.b} {
		s.base = s.seam.counts(nil)
	}
	r.struckAt = r.w.Elapsed()
	r.play.act(r.a, r.b)
	r.armed = true
	for _, s := range []*side{r.a, r.b} {
		s.begin(0)
		r.w.Go(s.name+" reads", s.reap)
	}
	r.w.Go("target drains", func(ctx context.Context) error { return r.drainWhile(ctx, r.b, r.a) })
	r.finish()
	r.armed = false
	if r.fault != nil && !r.fired {
		r.badf("the step did not come again")
		return
	}
	r.judge()
	for _, s := range []*side{r.a, r.b} {
		s.now = s.seam.counts(s.now)
		if r.hits == nil {
			r.hits = make([]uint64, len(s.now))
		}
		for i, n := range s.now {
			r.hits[i] += n - s.base[i]
		}
	}
}

// finish runs the programs to their end.
func (r *run) finish() {
	if err := r.w.Run(); err != nil {
		r.badf("%v", err)
	}
}

// pass lets time pass.
func (r *run) pass(d time.Duration) {
	r.w.Go("time", func(context.Context) error { return r.w.Sleep(max(d, 0)) })
	r.finish()
}

// look is called in each call of a side to its device: it notes the steps that the side's
// machines took since the last one, or has the fault strike.
func (r *run) look(i int, s *side) {
	if !r.armed || r.fired {
		return
	}
	if r.fault != nil && i != r.at.side {
		return
	}
	if len(s.now) == 0 {
		s.now = append(s.now, s.base...)
	}
	pair := 0
	s.seam.steps.Each(func(_, _, _ string, n uint64) {
		for s.now[pair] < n {
			s.now[pair]++
			st := step{i, pair, s.now[pair] - s.base[pair]}
			if r.fault == nil {
				r.steps = append(r.steps, st)
			} else if st == r.at {
				r.fired = true
			}
		}
		pair++
	})
	if r.fired {
		r.struckAt = r.w.Elapsed()
		r.fault.strike(r, r.victim)
	}
}
