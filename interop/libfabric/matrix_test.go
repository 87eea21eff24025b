package libfabric_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/efactor/efactor/interop/libfabric/party"
)

func bytesOf(n int) string { return fmt.Sprintf("%d B", n) }

// scenarios are all of the table.
func scenarios() []scenario {
	return messageScenarios()
}

// TestMatrix plays every scenario in every environment, in both roles.
func TestMatrix(t *testing.T) {
	need(t)
	for _, e := range environments() {
		t.Run(e.title(), func(t *testing.T) {
			defer drop(t, e)
			for _, s := range scenarios() {
				if s.where(e) {
					run(t, e, s)
				}
			}
		})
	}
}

// run plays s in both roles.
func run(t *testing.T, e environment, s scenario) {
	for _, libfabricBegins := range []bool{true, false} {
		name := s.name + ", efactor begins"
		if libfabricBegins {
			name = s.name + ", libfabric begins"
		}
		ok := t.Run(name, func(t *testing.T) {
			w := share(t, e)
			w.tap.take()
			a := party.Party(w.own)
			if libfabricBegins {
				a = w.lf
			}
			p := w.play(t, a)
			defer p.cancel()
			defer func() {
				if t.Failed() {
					t.Log(w)
				}
			}()
			s.play(p)
			seen := w.tap.take()
			for _, k := range s.from {
				assert.NotZero(t, seen[sent{!libfabricBegins, k}], "%v from %s; there were %v", k, p.a.Name(), seen)
			}
			for _, k := range s.back {
				assert.NotZero(t, seen[sent{libfabricBegins, k}], "%v from %s; there were %v", k, p.b.Name(), seen)
			}
			for _, k := range s.never {
				assert.Zero(t, seen[sent{true, k}]+seen[sent{false, k}], "%v; there were %v", k, seen)
			}
		})
		if !ok {
			drop(t, e)
		}
	}
}
