package main

import (
	"slices"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// span is from one time of day to another, which all processes have in common.
type span struct{ From, To time.Time }

// slow is a call that took long, though perhaps since its processes were not run: the
// conductor, which knows of all, judges it.
type slow struct {
	span
	What   string
	Bound  time.Duration
	Steady bool
}

// fault is an error among steady processes.
type fault struct {
	span
	Text string
}

const (
	// long is from when on a call is judged with what the machine did meanwhile.
	long = 200 * time.Millisecond
	// noticed is how late a goroutine has to be for its process not to have been run.
	noticed = 10 * time.Millisecond
	// mostSpans bounds what is kept of either.
	mostSpans = 20000
)

// spanTo is one that ends now.
func spanTo(now clock.Time, d time.Duration) span {
	to := clock.OfDay(now)
	return span{to.Add(-d), to}
}

// union sorts spans and joins those that overlap.
func union(list []span) (u []span) {
	slices.SortFunc(list, func(a, b span) int { return a.From.Compare(b.From) })
	for _, s := range list {
		if n := len(u); n > 0 && !s.From.After(u[n-1].To) {
			if s.To.After(u[n-1].To) {
				u[n-1].To = s.To
			}
		} else {
			u = append(u, s)
		}
	}
	return u
}

// excused reports whether a pause of a process explains f: for a third of PeerTimeout it was
// not run, which is the machine's doing.
func (f *fault) excused(stalls []span, timeout time.Duration) bool {
	from := f.From.Add(-2 * timeout)
	return slices.ContainsFunc(stalls, func(s span) bool {
		return s.To.Sub(s.From) >= timeout/3 && s.To.After(from) && s.From.Before(f.To)
	})
}

// without is how long s is without what it has in common with the spans of a union.
func (s span) without(u []span) time.Duration {
	d := s.To.Sub(s.From)
	i, _ := slices.BinarySearchFunc(u, s.From, func(x span, t time.Time) int { return x.To.Compare(t) })
	for ; i < len(u) && u[i].From.Before(s.To); i++ {
		from, to := u[i].From, u[i].To
		if from.Before(s.From) {
			from = s.From
		}
		if to.After(s.To) {
			to = s.To
		}
		d -= to.Sub(from)
	}
	return d
}
