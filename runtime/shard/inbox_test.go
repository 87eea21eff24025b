package shard

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/internal/testenv"
)

// TestInboxModel compares the inbox with a plain queue: with one producer at a
// time it is one, whether entries spill or not.
func TestInboxModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newInbox(4)
		var model []int
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				q.push(nil, next, laneRef)
				model = append(model, next)
				next++
			},
			"pop": func(t *rapid.T) {
				e, ok := q.pop()
				require.Equal(t, len(model) > 0, ok)
				if ok {
					require.Equal(t, model[0], e.msg)
					model = model[1:]
				}
			},
			"": func(t *rapid.T) {
				if len(model) > 0 {
					require.False(t, q.idle())
				}
			},
		})
		for range model {
			_, ok := q.pop()
			require.True(t, ok)
		}
		_, ok := q.pop() // clears the flag, if it is still up
		require.False(t, ok)
		require.True(t, q.idle())
	})
}

// A world is one state of an inbox with its producers half-way through their
// pushes. TestInboxInterleavings visits all that can be reached when producers
// and consumer take their steps in any order; the steps are the inbox's own.
type world struct {
	q     *inbox
	prods []producer
	items int   // per producer
	got   []int // came out, per producer
}

type producer struct {
	sent int // pushed, so the number of the item being pushed
	step producerStep
	pos  uint64
}

type producerStep uint8

const (
	stepLook producerStep = iota
	stepClaim
	stepPublish
	stepSpill
)

func (w *world) clone() *world {
	q := newInbox(len(w.q.cells))
	for i := range q.cells {
		q.cells[i].seq.Store(w.q.cells[i].seq.Load())
		q.cells[i].e = w.q.cells[i].e
	}
	q.spilled.Store(w.q.spilled.Load())
	q.tail.Store(w.q.tail.Load())
	q.list = slices.Clone(w.q.list)
	q.head, q.next, q.barrier = w.q.head, w.q.next, w.q.barrier
	if w.q.taken != nil {
		q.taken = slices.Clone(w.q.taken)
	}
	return &world{q, slices.Clone(w.prods), w.items, slices.Clone(w.got)}
}

func (w *world) key() string {
	var b strings.Builder
	for i := range w.q.cells {
		fmt.Fprint(&b, w.q.cells[i].seq.Load(), w.q.cells[i].e.msg, ";")
	}
	fmt.Fprint(&b, w.q.spilled.Load(), w.q.tail.Load(), w.q.list, w.q.head, w.q.taken, w.q.next, w.q.barrier)
	fmt.Fprint(&b, w.prods, w.got)
	return b.String()
}

// produce takes one step of producer i, false if it has none left.
func (w *world) produce(i int) bool {
	p := &w.prods[i]
	item := i*100 + p.sent
	switch p.step {
	case stepLook:
		if p.sent == w.items {
			return false
		}
		p.step = stepClaim
		if w.q.spilled.Load() {
			p.step = stepSpill
		}
	case stepClaim:
		pos, ok := w.q.claim()
		p.pos, p.step = pos, stepPublish
		if !ok {
			p.step = stepSpill
		}
	case stepPublish:
		w.q.publish(p.pos, nil, item, laneRef)
		p.sent, p.step = p.sent+1, stepLook
	case stepSpill:
		w.q.spill(nil, item, laneRef)
		p.sent, p.step = p.sent+1, stepLook
	}
	return true
}

// accept checks that e is the next item of its producer.
func (w *world) accept(t *testing.T, e entry) {
	p, n := e.msg.(int)/100, e.msg.(int)%100
	if n != w.got[p] {
		t.Fatalf("producer %d: item %d came where %d was due", p, n, w.got[p])
	}
	w.got[p]++
}

// finish empties the inbox when all producers are done.
func (w *world) finish(t *testing.T) {
	for e, ok := w.q.pop(); ok; e, ok = w.q.pop() {
		w.accept(t, e)
	}
	for p, n := range w.got {
		if n != w.items {
			t.Fatalf("lost: only %d items of producer %d came out", n, p)
		}
	}
	if !w.q.idle() {
		t.Fatal("empty, but not idle")
	}
}

func TestInboxInterleavings(t *testing.T) {
	type size struct{ producers, items int }
	sizes := []size{{2, 4}, {3, 2}}
	if testenv.Short() {
		sizes = []size{{2, 3}}
	}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("producers=%d/items=%d", size.producers, size.items), func(t *testing.T) {
			first := &world{
				q: newInbox(2), prods: make([]producer, size.producers),
				items: size.items, got: make([]int, size.producers),
			}
			seen := map[string]bool{first.key(): true}
			var spills, finals int
			for todo := []*world{first}; len(todo) > 0; {
				w := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				visit := func(next *world) {
					if k := next.key(); !seen[k] {
						seen[k] = true
						todo = append(todo, next)
					}
				}
				moved := false
				for i := range w.prods {
					next := w.clone()
					if next.produce(i) {
						moved = true
						visit(next)
					}
				}
				if !moved {
					finals++
					w.clone().finish(t)
				}
				if w.q.taken == nil && w.q.spilled.Load() {
					spills++
					next := w.clone()
					next.q.takeSpilled()
					visit(next)
				}
				next := w.clone()
				if e, ok := next.q.fetch(); ok {
					next.accept(t, e)
					visit(next)
				}
			}
			t.Logf("%d states, %d final, %d with a spilled list", len(seen), finals, spills)
			require.Greater(t, finals, 100)
			require.Greater(t, spills, 100)
		})
	}
}

// TestInboxConcurrent runs real producers against a consumer.
func TestInboxConcurrent(t *testing.T) {
	const producers, items = 3, 20000
	q := newInbox(64)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range items {
				q.push(nil, p<<32|i, laneRef)
			}
		})
	}
	var want [producers]int
	for n := 0; n < producers*items; {
		e, ok := q.pop()
		if !ok {
			osYield()
			continue
		}
		p, i := e.msg.(int)>>32, e.msg.(int)&0xffffffff
		if want[p] != i {
			t.Fatalf("producer %d: %d where %d was due", p, i, want[p])
		}
		want[p]++
		n++
	}
	wg.Wait()
	q.pop()
	require.True(t, q.idle())
}
