package merge

import (
	"regexp"
	"slices"

	"github.com/efactor/efactor/bench/internal/trial"
)

// tally is what all runs say of a case.
type tally struct {
	name, unit string
	higher     bool // figures are better
	ours       []float64
	tails      map[string][]float64
	peers      []string // that it was ever compared with
	// ratios are those to a peer, by its name and then by the number of the run.
	ratios map[string]map[int]float64
	theirs map[string][]float64
	// tailRatios are those of other figures of the runs, by their names, in the same way.
	tailRatios map[string]map[string]map[int]float64
}

// tallies has the cases in the order in which runs have them first.
type tallies struct {
	list []*tally
	by   map[string]*tally
	runs int
}

func count(runs []Run, names *regexp.Regexp) *tallies {
	all := &tallies{by: map[string]*tally{}, runs: len(runs)}
	for i, r := range runs {
		seen := map[string]bool{}
		for _, l := range r {
			if !names.MatchString(l.Case) {
				continue
			}
			t := all.tally(&l)
			if !seen[l.Case] { // the line for each peer has the same figure of ours
				t.ours = append(t.ours, l.Ours)
				for name, v := range l.Percentiles {
					t.tails[name] = append(t.tails[name], v)
				}
			}
			seen[l.Case] = true
			t.add(i, &l)
		}
	}
	return all
}

func (a *tallies) tally(l *trial.Line) *tally {
	t := a.by[l.Case]
	if t == nil {
		t = &tally{
			name: l.Case, unit: l.Unit, higher: l.Better == "more",
			tails: map[string][]float64{}, ratios: map[string]map[int]float64{}, theirs: map[string][]float64{},
			tailRatios: map[string]map[string]map[int]float64{},
		}
		a.by[l.Case] = t
		a.list = append(a.list, t)
	}
	return t
}

func (t *tally) add(run int, l *trial.Line) {
	if l.Ratio == nil {
		return
	}
	if !slices.Contains(t.peers, l.Peer) {
		t.peers = append(t.peers, l.Peer)
		t.ratios[l.Peer] = map[int]float64{}
	}
	t.ratios[l.Peer][run] = *l.Ratio
	t.theirs[l.Peer] = append(t.theirs[l.Peer], *l.Theirs)
	for name, theirs := range l.TheirPercentiles {
		ours, ok := l.Percentiles[name]
		if !ok || theirs <= 0 {
			continue
		}
		by := t.tailRatios[name]
		if by == nil {
			by = map[string]map[int]float64{}
			t.tailRatios[name] = by
		}
		if by[l.Peer] == nil {
			by[l.Peer] = map[int]float64{}
		}
		by[l.Peer][run] = ours / theirs
	}
}

// to gives the ratios to a peer in the order of the runs that have one.
func (t *tally) to(peer string, runs int) []float64 { return inOrder(t.ratios[peer], runs) }

func inOrder(ratios map[int]float64, runs int) (list []float64) {
	for i := range runs {
		if r, ok := ratios[i]; ok {
			list = append(list, r)
		}
	}
	return list
}

// toBest gives the ratios to the peer that was the best in the run.
func (t *tally) toBest(peers []string, runs int) (list []float64) {
	for i := range runs {
		best, found := 0.0, false
		for _, p := range peers {
			r, ok := t.ratios[p][i]
			if ok && (!found || (r < best) == t.higher) { // the ratio that flatters us least
				best, found = r, true
			}
		}
		if found {
			list = append(list, best)
		}
	}
	return list
}
