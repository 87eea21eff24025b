package suite

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/merge"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/bench/internal/versus"
)

// Lacking is for people: what no case compares.
const Lacking = "memory of peers that are processes"

// Suite makes the cases.
type Suite struct {
	Self     string // the program, which calls job.Main
	Short    bool   // fewer of them
	Rounds   bool   // are the caller's choice, for all cases
	Progress string // efactor's mode; "": that of the case
	Peers    []peers.Peer
	Emulator []string // the command that gives a program an EFA device; nil: there is none
}

// Cases lists those whose names match. Those that neither a short run has nor the figures to
// reach have fewer rounds, so that all are done in the time that a whole run has.
func (s *Suite) Cases(names *regexp.Regexp) []trial.Case {
	list := s.all(names)
	main := s.main(names)
	for i := range list {
		c := &list[i]
		switch {
		case s.Rounds:
			c.Rounds = 0
		case c.Rounds == 0 && !main[c.Name]:
			c.Rounds = fewRounds
		}
	}
	return list
}

// Toward lists what aims are of, of the cases whose names match, with the peers that they name. Where they name none a
// Unix socket is beside, if the case has it.
func (s *Suite) Toward(aims merge.Aims, names *regexp.Regexp) (list []trial.Case) {
	aimed := aims.Cases()
	for _, c := range s.Cases(names) {
		peers := []string{}
		c.Ours = slices.DeleteFunc(c.Ours, func(x trial.Contestant) bool {
			name := c.Name + x.Name
			peers = append(peers, aims.Peers(name)...)
			return !slices.Contains(aimed, name)
		})
		if len(peers) == 0 {
			peers = []string{echo.Unix}
		}
		c.Peers = slices.DeleteFunc(c.Peers, func(x trial.Contestant) bool { return !slices.Contains(peers, x.Name) })
		if len(c.Ours) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// main names the cases of a short run, and those of the figures to reach.
func (s *Suite) main(names *regexp.Regexp) map[string]bool {
	short, main := *s, map[string]bool{}
	short.Short = true
	for _, c := range short.all(names) {
		main[c.Name] = true
	}
	for _, name := range merge.Figures.Cases() {
		main[strings.TrimSuffix(name, "/slice")] = true
	}
	return main
}

func (s *Suite) all(names *regexp.Regexp) (list []trial.Case) {
	for _, family := range []func() []trial.Case{
		s.latencySHM, s.rate, s.bandwidth, s.latencyTCP, s.bandwidthTCP, s.request, s.think, s.json, s.slowReceiver, s.emulated, s.match, s.start,
		s.cpu, s.memory, s.idle, s.alone, s.allreduce, s.fan, s.actors, s.each,
	} {
		for _, c := range family() {
			if names.MatchString(c.Name) {
				list = append(list, c)
			}
		}
	}
	return list
}

// pick gives the shorter list of sizes, windows or depths if the run is short.
func (s *Suite) pick(all, short []int) []int {
	if s.Short {
		return short
	}
	return all
}

// mode is a case's progress mode, unless the caller has chosen.
func (s *Suite) mode(mode string) string {
	if s.Progress != "" {
		return s.Progress
	}
	return mode
}

// bytes is a size in a name: 8B, 64KiB, 1MiB.
func bytes(n int) string {
	size := versus.Size(n)
	switch text := size.String(); text[len(text)-1] {
	case 'k':
		return text[:len(text)-1] + "KiB"
	case 'm':
		return text[:len(text)-1] + "MiB"
	case 'g':
		return text[:len(text)-1] + "GiB"
	default:
		return text + "B"
	}
}

// warm is how many operations go before n that count.
func warm(n int) int { return n/10 + 1 }

// duration is a number of nanoseconds with fractions; never 0, as that is no time.
func duration(ns float64) time.Duration { return max(time.Duration(ns), 1) }

const usec = 1e-3 // of a nanosecond's

// pingPong is efactor's contestant for half a round trip, as j says.
func (s *Suite) pingPong(name string, j job.Job, timed bool) trial.Contestant {
	return trial.Contestant{Name: name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := j
		j.Kind, j.Warm, j.Count = job.PingPong, warm(n), n
		if timed {
			j.Timed = n
		}
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		x := trial.Sample{Value: r.Nanos / 2 * usec, Each: duration(r.Nanos)}
		if timed {
			x.Tails = map[string]float64{}
			for name, ns := range r.Tails {
				x.Tails[name] = ns / 2 * usec
			}
		}
		return x, nil
	}}
}

// trips is a peer's contestant for the same.
func trips(p *peers.Peer, size int) trial.Contestant {
	return trial.Contestant{Name: p.Name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
		t, err := p.PingPong(ctx, size, n)
		return trial.Sample{Value: t.Half, Each: duration(2 * t.Half / usec)}, err
	}}
}
