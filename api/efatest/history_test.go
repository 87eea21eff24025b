package efatest_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/efactor/efactor/api/efatest/internal/model"
	"github.com/efactor/efactor/wire"
)

// happening is an atomic on one cell: it took effect between call and end.
type happening struct {
	model.Step
	from, to  int
	call, end int
	injected  bool
}

// Ends of what nobody knows the end of: something that will have happened when all
// is over, and something of which not even that is known.
const (
	atLast = math.MaxInt - 4
	never  = math.MaxInt
)

// registers is what cells do, for the checker: an unsigned integer.
var registers = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		t, ok := input.(*happening).Apply(state.(uint64))
		return ok, t
	},
}

// patience with the checker, in real time. It is not needed; a history that takes
// longer fails the seed.
const checkerTime = 20 * time.Second

// linear checks that there is an order in which the happenings, with the value in the
// end, make sense.
func linear(list []*happening, bits int, final uint64) error {
	last := &happening{
		Step: model.Step{Op: wire.OpRead, Bits: bits, Fetches: true, Fetched: final}, call: atLast + 1, end: atLast + 2,
	}
	var ops []porcupine.Operation
	for i, h := range append(list, last) {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: h, Call: int64(h.call), Return: int64(h.end)})
	}
	if verdict := porcupine.CheckOperationsTimeout(registers, ops, checkerTime); verdict != porcupine.Ok {
		var b strings.Builder
		for _, h := range list {
			fmt.Fprintf(&b, "\n\t%d to %d: %v (%d at %d)", h.call, h.end, h.Step, h.from, h.to)
		}
		return fmt.Errorf("no order of these ends with %#x (%v):%s", final, verdict, b.String())
	}
	return nil
}

// checkCells looks at the end of all atomics on the cells of a store.
func (r *run) checkCells(s *store, c *cells) {
	for i, list := range c.history {
		for _, h := range list {
			if x := r.cast[h.from].removed; h.injected && x != nil && x.id == h.to {
				h.end = never // nobody knows what became of it
			}
		}
		final := c.load(s.mem[c.at+i*c.size():])
		if err := linear(list, c.bits, final); err != nil {
			r.fail("host %d, cell %d of %d bits: %w", s.host, i, c.bits, err)
		}
		if c.counter {
			if err := adds(list, c.bits, final); err != nil {
				r.fail("host %d, counter %d of %d bits: %w", s.host, i, c.bits, err)
			}
		}
	}
}

// adds checks that a counter holds the sum of what was added to it. What may have
// been added must not be needed if everything is sure.
func adds(list []*happening, bits int, final uint64) error {
	sum, unsure := uint64(0), false
	for _, h := range list {
		switch {
		case h.Op != wire.OpSum:
		case h.end == never:
			unsure = true
		default:
			sum += h.Operand
		}
	}
	if sum &= 1<<bits - 1; sum != final && !unsure {
		return fmt.Errorf("holds %#x, and %#x was added", final, sum)
	}
	return nil
}

// load reads a cell.
func (c *cells) load(b []byte) uint64 {
	var w [8]byte
	copy(w[:], b[:c.size()])
	return binary.LittleEndian.Uint64(w[:])
}

// store appends integers as they lie in memory.
func (c *cells) encode(list []uint64) []byte {
	var b []byte
	for _, v := range list {
		b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:c.size()]...)
	}
	return b
}
