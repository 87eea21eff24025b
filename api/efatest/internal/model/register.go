package model

import (
	"fmt"

	"github.com/efactor/efactor/wire"
)

// Step is an atomic on one unsigned integer, as its requester saw it.
type Step struct {
	Op      wire.AtomicOp
	Bits    int // of the integer
	Operand uint64
	Compare uint64 // of the operations that compare
	Fetched uint64 // what was there before, if Fetches
	Fetches bool
}

// Apply performs the step on an integer t; false: it did not find t, since it
// fetched another value.
func (s Step) Apply(t uint64) (uint64, bool) {
	if s.Fetches && s.Fetched != t {
		return t, false
	}
	o, c := s.Operand, s.Compare
	r := t
	set := func(cond bool) {
		if cond {
			r = o
		}
	}
	switch s.Op {
	case wire.OpMin:
		r = min(t, o)
	case wire.OpMax:
		r = max(t, o)
	case wire.OpSum:
		r = t + o
	case wire.OpProd:
		r = t * o
	case wire.OpLOr:
		r = truth(t != 0 || o != 0)
	case wire.OpLAnd:
		r = truth(t != 0 && o != 0)
	case wire.OpLXor:
		r = truth((t != 0) != (o != 0))
	case wire.OpBOr:
		r = t | o
	case wire.OpBAnd:
		r = t & o
	case wire.OpBXor:
		r = t ^ o
	case wire.OpDiff:
		r = t - o
	case wire.OpRead:
	case wire.OpWrite:
		r = o
	case wire.OpCSwap:
		set(c == t)
	case wire.OpCSwapNE:
		set(c != t)
	case wire.OpCSwapLE:
		set(c <= t)
	case wire.OpCSwapLT:
		set(c < t)
	case wire.OpCSwapGE:
		set(c >= t)
	case wire.OpCSwapGT:
		set(c > t)
	case wire.OpMSwap:
		r = o&c | t&^c
	}
	return r & (1<<s.Bits - 1), true
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// String describes the step for a report.
func (s Step) String() string {
	text := fmt.Sprintf("%v %#x", s.Op, s.Operand)
	if s.Compare != 0 {
		text += fmt.Sprintf(" if %#x", s.Compare)
	}
	if s.Fetches {
		text += fmt.Sprintf(" found %#x", s.Fetched)
	}
	return text
}

// CheckShared judges a pool of receives that several endpoints have: msgs are all messages
// sent to them, recvs all receives of the pool, and at the endpoint where each one that got a
// message got it. Beyond the rules of Check, by which only messages from one endpoint to
// another have an order, a message arrives at the endpoint that it was sent to.
func CheckShared(msgs []*Msg, recvs []*Recv, at map[*Recv]int) error {
	pairs := make(map[[2]int]int)
	pair := func(from, to int) int {
		k := [2]int{from, to}
		if _, ok := pairs[k]; !ok {
			pairs[k] = len(pairs)
		}
		return pairs[k]
	}
	var ms []*Msg
	for _, m := range msgs {
		m := *m
		m.From = pair(m.From, m.To)
		ms = append(ms, &m)
	}
	var rs []*Recv
	for _, r := range recvs {
		c := *r
		if c.Got != nil {
			g := *c.Got
			g.From = pair(g.From, at[r])
			c.Got = &g
		}
		rs = append(rs, &c)
	}
	return Check(ms, rs)
}
