package libfabric_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func bytesOf(n int) string { return fmt.Sprintf("%d B", n) }

// scenarios are all of the table.
func scenarios() []scenario {
	all := messageScenarios()
	all = append(all, rmaScenarios()...)
	all = append(all, atomicScenarios()...)
	all = append(all, sizeScenarios()...)
	return append(all, matchScenarios()...)
}

// TestMatrix plays every scenario in every environment, in both roles.
func TestMatrix(t *testing.T) {
	need(t)
	for _, e := range environments() {
		table(t, e)
	}
}

// TestReference plays the scenarios with libfabric on both sides: what fails there
// as well is libfabric's affair.
func TestReference(t *testing.T) {
	if !*reference {
		t.Skip("-reference was not given")
	}
	need(t)
	for _, e := range environments() {
		e.reference = true
		table(t, e)
	}
}

// table plays every scenario that is for e.
func table(t *testing.T, e environment) {
	t.Run(e.title(), func(t *testing.T) {
		defer drop(t, e)
		for _, s := range scenarios() {
			if s.where(e) {
				run(t, e, s)
			}
		}
	})
}

// run plays s in both roles.
func run(t *testing.T, e environment, s scenario) {
	for _, begins := range []role{libfabricBegins, efactorBegins} {
		if s.begins != either && s.begins != begins {
			continue
		}
		ok := t.Run(fmt.Sprintf("%s, %v", s.name, begins), func(t *testing.T) {
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
			if !e.reference {
				s.check(p, w.tap.take())
			}
		})
		if !ok {
			drop(t, e)
		}
	}
}

// check has the packets seen that s is about.
func (s scenario) check(p *play, seen counts) {
	a := p.begins == efactorBegins
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
