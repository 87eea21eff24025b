package trial

import (
	"slices"

	"golang.org/x/perf/benchmath"

	"github.com/efactor/efactor/bench/internal/versus"
)

// Outcome is what a case came to.
type Outcome struct {
	Case   *Case
	Scores []*Score // efactor's first
	Rounds int      // that there was time for
}

// Score is a contestant's.
type Score struct {
	Name  string
	Err   error // why it is out
	Ours  bool
	Value []float64 // of each round

	contestant Contestant
	n          int
	zero       bool // may be a figure
	tails      map[string][]float64
	apart      []float64
}

func newOutcome(c *Case) *Outcome {
	o := &Outcome{Case: c}
	for _, x := range c.Ours {
		o.Scores = append(o.Scores, &Score{Name: x.Name, Ours: true, zero: c.Zero, contestant: x, tails: map[string][]float64{}})
	}
	for _, x := range c.Peers {
		o.Scores = append(o.Scores, &Score{Name: x.Name, contestant: x, tails: map[string][]float64{}})
	}
	return o
}

func (s *Score) add(x Sample) {
	s.Value = append(s.Value, x.Value)
	for name, v := range x.Tails {
		s.tails[name] = append(s.tails[name], v)
	}
}

// ok reports whether there are figures of all rounds.
func (s *Score) ok() bool { return s.Err == nil && len(s.Value) > 0 }

// median gives those of the percentiles.
func (s *Score) median() map[string]float64 {
	m := map[string]float64{}
	for name, list := range s.tails {
		m[name] = versus.SpreadOf(list).Median
	}
	return m
}

// Line compares two contestants. It is a line of the output with -json, too.
type Line struct {
	Case string `json:"case"`
	Peer string `json:"peer"`
	// Ours and Theirs are medians; Theirs and all that comes of it is nil if there was no
	// peer to compare with.
	Ours   float64  `json:"ours"`
	Theirs *float64 `json:"theirs,omitempty"`
	Ratio  *float64 `json:"ratio,omitempty"` // of ours to theirs
	Unit   string   `json:"unit"`
	Better string   `json:"better"`      // "less" or "more"
	P      *float64 `json:"p,omitempty"` // of such a difference, if there were none
	Rounds int      `json:"rounds"`
	// OursSpread and TheirsSpread are the least and the most.
	OursSpread   [2]float64         `json:"ours_spread"`
	TheirsSpread *[2]float64        `json:"theirs_spread,omitempty"`
	Percentiles  map[string]float64 `json:"ours_percentiles,omitempty"`
	// TheirPercentiles are there where the peer is measured as efactor is.
	TheirPercentiles map[string]float64 `json:"theirs_percentiles,omitempty"`
	// Apart is the least and the most that a cache line took between two CPUs before and after the
	// runs, in ns: where they differ much the hypervisor has moved the CPUs meanwhile.
	Apart *[2]float64 `json:"cpus_apart_ns,omitempty"`
}

// NoPeer is the peer of a figure that could be compared with nothing.
const NoPeer = "none"

// Lines compares each of efactor's ways with each peer.
func (o *Outcome) Lines() (list []Line) {
	for _, ours := range o.Scores {
		if !ours.Ours || !ours.ok() {
			continue
		}
		alone := true
		for _, theirs := range o.Scores {
			if !theirs.Ours && theirs.ok() {
				list, alone = append(list, o.line(ours, theirs)), false
			}
		}
		if alone {
			list = append(list, o.line(ours, nil))
		}
	}
	return list
}

func (o *Outcome) line(ours, theirs *Score) Line {
	spread := versus.SpreadOf(ours.Value)
	l := Line{
		Case: o.Case.Name + ours.Name, Peer: NoPeer, Unit: o.Case.Unit, Better: "less", Rounds: len(ours.Value),
		Ours: spread.Median, OursSpread: [2]float64{spread.Min, spread.Max}, Percentiles: ours.median(),
		Apart: o.apart(),
	}
	if o.Case.Higher {
		l.Better = "more"
	}
	if theirs == nil {
		return l
	}
	spread = versus.SpreadOf(theirs.Value)
	ratio, p := l.Ours/spread.Median, P(ours.Value, theirs.Value)
	l.Peer, l.Theirs, l.TheirsSpread, l.Ratio, l.P = theirs.Name, &spread.Median, &[2]float64{spread.Min, spread.Max}, &ratio, &p
	l.TheirPercentiles = theirs.median()
	return l
}

// apart is the least and the most that was measured; nil: nothing was.
func (o *Outcome) apart() *[2]float64 {
	var looks []float64
	for _, s := range o.Scores {
		looks = append(looks, s.apart...)
	}
	if len(looks) == 0 {
		return nil
	}
	return &[2]float64{slices.Min(looks), slices.Max(looks)}
}

// Failures names the contestants that are out, and why.
func (o *Outcome) Failures() map[string]error {
	m := map[string]error{}
	for _, s := range o.Scores {
		switch {
		case s.Err == nil:
		case s.Ours:
			m["efactor"+s.Name] = s.Err
		default:
			m[s.Name] = s.Err
		}
	}
	return m
}

// P is the probability that two lists of figures differ as much as these, or more, if both
// were of the same kind: Mann and Whitney's test, which assumes nothing of how they are
// distributed.
func P(a, b []float64) float64 {
	return benchmath.AssumeNothing.Compare(sample(a), sample(b)).P
}

func sample(list []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(list), &benchmath.DefaultThresholds)
}
