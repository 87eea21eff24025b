package coll_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/efactor/efactor/api/coll"
)

// trial is one collective with all that is chosen about it. Every rank knows what
// every rank brings, and so what it must get: that is computed here without any
// message, from the definitions.
type trial struct {
	kind    string
	seed    uint64
	n       int   // elements of a part
	counts  []int // of the v forms and ReduceScatter; nil: equal
	root    int
	op      int // of operators[T]
	inPlace bool
	alloc   bool
	opts    []coll.Option
}

func (tr trial) String() string {
	return fmt.Sprintf("%s n=%d counts=%v root=%d op=%d inplace=%v alloc=%v seed=%d", tr.kind, tr.n, tr.counts, tr.root, tr.op, tr.inPlace, tr.alloc, tr.seed)
}

// operator is one with its definition.
type operator[T any] struct {
	name    string
	op      coll.Op[T]
	ref     func(lower, higher T) T
	ordered bool
}

func number(seed uint64, rank, i int) uint64 {
	x := seed*0x9e3779b97f4a7c15 + uint64(rank)*0xbf58476d1ce4e5b9 + uint64(i)*0x94d049bb133111eb
	x ^= x >> 31
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// flavor is how a type of element is made and combined.
type flavor[T comparable] struct {
	make func(v uint64) T
	ops  []operator[T]
}

// affine is x -> A*x+B; to do one after the other is associative and does not
// commute.
type affine struct {
	A, B uint32
}

func (f affine) then(g affine) affine { return affine{g.A * f.A, g.A*f.B + g.B} }

var affines = flavor[affine]{
	make: func(v uint64) affine { return affine{uint32(v) | 1, uint32(v >> 32)} },
	ops: []operator[affine]{{"then", func(in, inout []affine) {
		for i, f := range in {
			inout[i] = f.then(inout[i])
		}
	}, affine.then, true}},
}

func truth[T coll.Number](v bool) T {
	if v {
		return 1
	}
	return 0
}

func numbers[T coll.Number]() flavor[T] {
	return flavor[T]{
		// Sums and products of these are exact in every type.
		make: func(v uint64) T { return []T{0, 1, 2, 1, 2}[v%5] },
		ops: []operator[T]{
			{"sum", coll.Sum[T], func(a, b T) T { return a + b }, false},
			{"prod", coll.Prod[T], func(a, b T) T { return a * b }, false},
			{"land", coll.LAnd[T], func(a, b T) T { return truth[T](a != 0 && b != 0) }, false},
			{"lor", coll.LOr[T], func(a, b T) T { return truth[T](a != 0 || b != 0) }, false},
			{"lxor", coll.LXor[T], func(a, b T) T { return truth[T]((a != 0) != (b != 0)) }, false},
			{"right", func(_, _ []T) {}, func(_, b T) T { return b }, true},
			{"left", func(in, inout []T) { copy(inout, in) }, func(a, _ T) T { return a }, true},
		},
	}
}

func orderedNumbers[T coll.Ordered]() flavor[T] {
	f := numbers[T]()
	f.ops = append(f.ops,
		operator[T]{"min", coll.Min[T], func(a, b T) T { return min(a, b) }, false},
		operator[T]{"max", coll.Max[T], func(a, b T) T { return max(a, b) }, false},
	)
	return f
}

func integers[T coll.Integer]() flavor[T] {
	f := orderedNumbers[T]()
	f.make = func(v uint64) T { return T(v) }
	f.ops = append(f.ops,
		operator[T]{"and", coll.And[T], func(a, b T) T { return a & b }, false},
		operator[T]{"or", coll.Or[T], func(a, b T) T { return a | b }, false},
		operator[T]{"xor", coll.Xor[T], func(a, b T) T { return a ^ b }, false},
	)
	return f
}

// exam is a trial on one rank.
type exam[T comparable] struct {
	trial
	flavor[T]
	c    *coll.Comm
	free []func() error
}

// pending is a collective under way, and how its result is looked at.
type pending struct {
	req   *coll.Request
	check func() error
}

func (p *pending) wait(ctx context.Context) error {
	if p.req != nil {
		if err := p.req.Wait(ctx); err != nil {
			return err
		}
	}
	return p.check()
}

// part is a rank's input: n elements from the one numbered from on.
func (e *exam[T]) part(rank, from, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = e.make(number(e.seed, rank, from+i))
	}
	return s
}

// buffer is a slice to work on, with a rank's input at its beginning.
func (e *exam[T]) buffer(n int, with []T) []T {
	s := make([]T, n)
	if e.alloc {
		if a, err := coll.Alloc[T](e.c, n); err == nil { // else the device has no room
			s = a
			e.free = append(e.free, func() error { return coll.Free(e.c, a) })
		}
	}
	copy(s, with)
	return s
}

// fold is the reduction of the parts of the ranks before upTo.
func (e *exam[T]) fold(upTo, from, n int) []T {
	sum := e.part(0, from, n)
	for r := 1; r < upTo; r++ {
		for i, v := range e.part(r, from, n) {
			sum[i] = e.ops[e.op].ref(sum[i], v)
		}
	}
	return sum
}

// offset is where the part of a rank begins.
func (e *exam[T]) offset(rank int) int {
	if e.counts == nil {
		return rank * e.n
	}
	at := 0
	for _, k := range e.counts[:rank] {
		at += k
	}
	return at
}

func (e *exam[T]) count(rank int) int { return e.offset(rank+1) - e.offset(rank) }

// all is the parts of all ranks.
func (e *exam[T]) all() []T {
	var s []T
	for r := range e.c.Size() {
		s = append(s, e.part(r, 0, e.count(r))...)
	}
	return s
}

// equals checks that a buffer has the expected contents.
func equals[T comparable](e *exam[T], got, want []T) *pending {
	return &pending{check: func() (err error) {
		if !slices.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			err = fmt.Errorf("rank %d of %d: %v: element %d of %d is wrong: %v instead of %v", e.c.Rank(), e.c.Size(), e.trial, at, len(want), got[at:min(at+4, len(got))], want[at:min(at+4, len(want))])
		}
		for _, f := range e.free {
			if e := f(); err == nil {
				err = e
			}
		}
		return err
	}}
}
