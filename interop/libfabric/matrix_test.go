//go:build linux

package libfabric_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/efactor/efactor/wire"
)

func bytesOf(n int) string { return fmt.Sprintf("%d B", n) }

// scenarios are all of the table.
func scenarios() []scenario {
	return slices.Concat(contactScenarios(), messageScenarios(), rmaScenarios(), atomicScenarios(), sizeScenarios(),
		matchScenarios(), refusedScenarios(), ownScenarios(), loadScenarios(), abortScenarios())
}

// cell is a place in the matrix.
type cell struct {
	row     string
	begins  role
	profile string
}

// record is the result of a run of the table.
type record struct {
	passed, failed map[cell]int
	packets        counts // of the packets that passed
	left           int    // scenarios that -run has left out
}

func newRecord() *record {
	return &record{passed: map[cell]int{}, failed: map[cell]int{}, packets: counts{}}
}

// note keeps the result of a scenario.
func (r *record) note(e environment, s scenario, begins role, ok bool, seen counts) {
	to := r.failed
	if ok {
		to = r.passed
		for k, n := range seen {
			r.packets[k] += n
		}
	}
	for _, row := range s.proves {
		to[cell{row, begins, e.profile()}]++
	}
}

// TestMatrix plays every scenario in every environment, in both roles. docs/interop.md
// has the result as a table, and every packet type that 1.17 knows must have been seen
// from either side.
func TestMatrix(t *testing.T) {
	need(t)
	got := newRecord()
	for _, e := range environments() {
		if brief() && (e.shuffle == 0 || e.runt) {
			continue
		}
		got.table(t, e)
	}
	if brief() || got.left > 0 || t.Failed() {
		return // not the whole
	}
	checkPackets(t, got.packets)
	checkTables(t, got)
}

// TestReference plays the scenarios with libfabric on both sides: failures there
// are libfabric's own.
func TestReference(t *testing.T) {
	if !*reference {
		t.Skip("-reference was not given")
	}
	need(t)
	for _, e := range environments() {
		e.reference = true
		newRecord().table(t, e)
	}
}

// table plays every scenario that is for e.
func (r *record) table(t *testing.T, e environment) {
	all := scenarios()
	r.left++ // until it has run
	t.Run(e.title(), func(t *testing.T) {
		r.left--
		defer drop(t, e)
		for i, s := range all {
			if s.only == e.only && !lf().before(s.since) && s.where(e) && (!brief() || i%4 == 0) {
				r.run(t, e, s)
			}
		}
	})
}

// run plays s in both roles.
func (r *record) run(t *testing.T, e environment, s scenario) {
	for _, begins := range []role{libfabricBegins, efactorBegins} {
		if g := s.gap(lf()); g.begins != either && g.begins != begins && !*gaps {
			continue
		}
		r.left++ // until it has run
		ok := t.Run(fmt.Sprintf("%s, %v", s.name, begins), func(t *testing.T) {
			r.left--
			w := share(t, e)
			p := w.play(t, begins)
			defer p.cancel()
			defer func() {
				if t.Failed() {
					t.Log(w)
				}
			}()
			w.tap.take()
			s.play(p)
			seen := w.tap.take()
			if !e.reference {
				s.check(p, seen)
			}
			r.note(e, s, begins, !t.Failed(), seen)
		})
		if !ok {
			drop(t, e)
		}
	}
}

// check has the packets seen that s is about.
func (s scenario) check(p *play, seen counts) {
	a := p.begins == efactorBegins
	if a && s.gathers && p.w.env.card {
		return // we gather pieces in memory that the card does not know, so no RDMA
	}
	if !a && p.w.env.card && seen[sent{true, wire.TypeReadNACK}] > 0 {
		return // nor does it know the receive's, and the release understands that we refuse to read
	}
	for _, k := range s.from {
		assert.NotZero(p, seen[sent{a, k}], "%v from %s; there were %v", k, p.a.Name(), seen)
	}
	for _, k := range s.back {
		assert.NotZero(p, seen[sent{!a, k}], "%v from %s; there were %v", k, p.b.Name(), seen)
	}
	for _, k := range s.never {
		assert.Zero(p, seen[sent{true, k}]+seen[sent{false, k}], "%v; there were %v", k, seen)
	}
}
