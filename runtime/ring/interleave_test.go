//go:build interleave

package ring

import (
	"iter"
	"testing"

	"github.com/efactor/efactor/runtime/sys"
)

// explore runs the actors in every order of their steps: choices is the path
// taken so far, and each run goes on along the first way not tried yet.
func explore(t *testing.T, build func() (actors []func(), check func(t *testing.T))) (runs int) {
	t.Helper()
	var path []int // which of the live actors went on, at each step
	for {
		actors, check := build()
		type co struct {
			next func() (struct{}, bool)
			stop func()
		}
		var live []co
		var cur func(struct{}) bool
		sys.OnStep = func(bool, func() bool) bool {
			cur(struct{}{})
			return false
		}
		for _, a := range actors {
			var yield func(struct{}) bool
			next, stop := iter.Pull(func(y func(struct{}) bool) {
				yield = y
				cur = y
				y(struct{}{}) // begin when chosen
				cur = y
				a()
			})
			next()
			mine := func() (struct{}, bool) {
				cur = yield
				return next()
			}
			live = append(live, co{mine, stop})
		}
		var widths []int
		for at := 0; len(live) > 0; at++ {
			if at == len(path) {
				path = append(path, 0)
			}
			widths = append(widths, len(live))
			k := path[at]
			if _, more := live[k].next(); !more {
				live = append(live[:k:k], live[k+1:]...)
			}
		}
		sys.OnStep = func(bool, func() bool) bool { return false }
		check(t)
		runs++
		// The next path in order.
		path = path[:len(widths)]
		i := len(path) - 1
		for i >= 0 && path[i]+1 == widths[i] {
			i--
		}
		if i < 0 {
			return runs
		}
		path[i]++
		path = path[:i+1]
	}
}

// TestMPSCInterleaved: two producers and the consumer, on a ring with room for
// two, in all orders of their atomic steps.
func TestMPSCInterleaved(t *testing.T) {
	runs := explore(t, func() ([]func(), func(*testing.T)) {
		q := NewMPSC[int](2)
		var got []int
		pushed := map[int]bool{}
		take := func() {
			if v := q.Peek(); v != nil {
				got = append(got, *v)
				q.Drop()
			}
		}
		push := func(v int) func() {
			return func() { pushed[v] = q.Push(&v, nil) }
		}
		return []func(){push(1), push(2), func() { take(); take() }}, func(t *testing.T) {
			for q.Peek() != nil {
				take()
			}
			seen := map[int]int{}
			for _, v := range got {
				seen[v]++
			}
			for v, ok := range pushed {
				if want := map[bool]int{true: 1}[ok]; seen[v] != want {
					t.Fatalf("%d was pushed: %v, taken %d times", v, ok, seen[v])
				}
			}
			if !pushed[1] || !pushed[2] {
				t.Fatal("a push was refused although there was room")
			}
		}
	})
	t.Logf("%d orders", runs)
}

// TestMPSCFullInterleaved: three pushes into a ring of two while the consumer
// takes one.
func TestMPSCFullInterleaved(t *testing.T) {
	runs := explore(t, func() ([]func(), func(*testing.T)) {
		q := NewMPSC[int](2)
		one := 1
		q.Push(&one, nil)
		var got []int
		ok := map[int]bool{1: true}
		push := func(v int) func() { return func() { ok[v] = q.Push(&v, nil) } }
		take := func() {
			if v := q.Peek(); v != nil {
				got = append(got, *v)
				q.Drop()
			}
		}
		return []func(){push(2), push(3), take}, func(t *testing.T) {
			for q.Peek() != nil {
				take()
			}
			n := 0
			for _, o := range ok {
				if o {
					n++
				}
			}
			if len(got) != n || got[0] != 1 {
				t.Fatalf("accepted %v, taken %v", ok, got)
			}
		}
	})
	t.Logf("%d orders", runs)
}

// TestMPSCIdleInterleaved: a ring in which a push is done isn't idle, though another
// that has begun before it isn't done.
func TestMPSCIdleInterleaved(t *testing.T) {
	hidden := false
	runs := explore(t, func() ([]func(), func(*testing.T)) {
		q := NewMPSC[int](2)
		push := func(v int) { q.Push(&v, nil) }
		second := func() {
			push(2)
			hidden = hidden || q.Peek() == nil
			if q.Idle() {
				t.Error("idle after a push")
			}
		}
		return []func(){func() { push(1) }, second}, func(*testing.T) {}
	})
	if !hidden {
		t.Error("no order had the first push hide the second")
	}
	t.Logf("%d orders", runs)
}

// TestMPSCLatePublishInterleaved: a consumer that gives a sign and then finds the ring idle has
// given it in time, although the producer looks for it before its value is published.
func TestMPSCLatePublishInterleaved(t *testing.T) {
	runs := explore(t, func() ([]func(), func(*testing.T)) {
		q := NewMPSC[int](2)
		sign, seen, idle := false, false, false
		producer := func() {
			_, ticket := q.Claim()
			seen = sign
			q.Publish(ticket)
		}
		consumer := func() {
			sys.Step()
			sign = true
			sys.Step()
			idle = q.Idle()
		}
		return []func(){producer, consumer}, func(t *testing.T) {
			if idle && !seen {
				t.Fatal("the consumer sleeps, and the producer does not know")
			}
			if q.Rest() == nil {
				t.Fatal("nothing is left")
			}
		}
	})
	t.Logf("%d orders", runs)
}

// TestSPSCInterleaved: producer and consumer in all orders.
func TestSPSCInterleaved(t *testing.T) {
	runs := explore(t, func() ([]func(), func(*testing.T)) {
		q := NewSPSC[int](2)
		var got []int
		put := 0
		producer := func() {
			for i := range 4 {
				if c := q.Put(); c != nil {
					*c = i + 1
					put++
					q.Publish()
				}
			}
		}
		take := func() {
			var dst [2]int
			got = append(got, dst[:q.Take(dst[:])]...)
		}
		return []func(){producer, func() { take(); take(); take() }}, func(t *testing.T) {
			take()
			take()
			if len(got) != put {
				t.Fatalf("%d put, %v taken", put, got)
			}
			for i := 1; i < len(got); i++ {
				if got[i] <= got[i-1] {
					t.Fatalf("out of order: %v", got)
				}
			}
		}
	})
	t.Logf("%d orders", runs)
}
