package efatest_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/model"
	"github.com/efactor/efactor/wire"
)

// happening is an atomic on one cell: it took effect between call and end.
type happening struct {
	model.Step
	from, to  int
	call, end int
	injected  bool
	canceled  bool // later ones may happen without it
	void      bool // it cannot have happened

	// For the checker: the pair of endpoints, the number of the atomic within the
	// pair, and how many earlier ones must have happened before.
	pair             int
	number, required uint8
}

// Ends that are unknown: of an atomic that will have happened at the very end, and
// of one of which not even that is known.
const (
	atLast = math.MaxInt - 4
	never  = math.MaxInt
)

// cellState is a cell's state in the checker. An endpoint's atomics at another one
// happen in order: next says for each pair which of theirs may come next.
type cellState struct {
	value uint64
	over  bool
	next  [maxPairs]uint8
}

// maxPairs bounds the pairs of endpoints that use a cell, and 255 the atomics of each
// pair.
const maxPairs = 64

// registers is the checker's model of cells. An atomic that may not have happened at
// all may come at the very end, and then does nothing.
var registers = porcupine.Model{
	Init: func() any { return cellState{} },
	Step: func(state, input, _ any) (bool, any) {
		s, h := state.(cellState), input.(*happening)
		if s.over {
			return h.end == never, s
		}
		t, ok := h.Apply(s.value)
		if s.value = t; h.pair < 0 {
			s.over = true
			return ok, s
		}
		if ok = ok && h.number >= s.next[h.pair] && h.required <= s.next[h.pair]; ok {
			s.next[h.pair] = h.number + 1
		}
		return ok, s
	},
}

// pairUp numbers what each pair of endpoints did.
func pairUp(list []*happening) {
	type pair struct{ from, to int }
	pairs := make(map[pair]int)
	var count, sure [maxPairs]uint8
	for _, h := range list {
		k := pair{h.from, h.to}
		if _, ok := pairs[k]; !ok {
			pairs[k] = len(pairs)
		}
		h.pair = pairs[k]
		h.number, h.required = count[h.pair], sure[h.pair]
		count[h.pair]++
		if !h.canceled {
			sure[h.pair] = count[h.pair]
		}
	}
}

// checkerTime bounds the checker, in real time; a history that takes longer fails the
// seed.
const checkerTime = 2 * time.Minute

// linear checks that there is an order in which the happenings, with the value in the
// end, make sense.
func linear(list []*happening, bits int, final uint64) error {
	pairUp(list)
	last := &happening{
		Step: model.Step{Op: wire.OpRead, Bits: bits, Fetches: true, Fetched: final}, call: atLast + 1, end: atLast + 2, pair: -1,
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

// checkCells checks the end of all atomics on the cells of a store.
func (r *run) checkCells(s *store, c *cells) {
	for i, list := range c.history {
		for _, h := range list {
			if x := r.cast[h.from].removed; h.injected && x != nil && x.id == h.to {
				h.end, h.canceled = never, true // its outcome is unknown
			}
		}
		list = slices.DeleteFunc(list, func(h *happening) bool { return h.void })
		final := c.load(s.mem[c.at+i*c.size():])
		if err := linear(list, c.modelBits(), final); err != nil {
			r.fail("host %d, cell %d of %d bits: %w", s.host, i, c.bits, err)
		}
		if c.counter {
			if err := adds(list, c.modelBits(), final); err != nil {
				r.fail("host %d, counter %d of %d bits: %w", s.host, i, c.bits, err)
			}
		}
	}
}

// adds checks that a counter holds the sum of the additions. Uncertain additions
// must not be needed if everything is sure.
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
	if c.typ != 0 {
		return c.loadUnusual(b)
	}
	var w [8]byte
	copy(w[:], b[:c.size()])
	return binary.LittleEndian.Uint64(w[:])
}

// store appends integers as they lie in memory.
func (c *cells) encode(list []uint64) []byte {
	var b []byte
	for _, v := range list {
		if c.typ != 0 {
			b = c.appendUnusual(b, v)
			continue
		}
		b = append(b, binary.LittleEndian.AppendUint64(nil, v)[:c.size()]...)
	}
	return b
}

// step makes a happening of from's at endpoint 0.
func step(from, call, end int, op wire.AtomicOp, operand uint64) *happening {
	return &happening{Step: model.Step{Op: op, Bits: 16, Operand: operand}, from: from, call: call, end: end}
}

// found makes it one that fetched v.
func (h *happening) found(v uint64) *happening {
	h.Fetches, h.Fetched = true, v
	return h
}

// TestLinear: the checker accepts what can have happened, and nothing else.
func TestLinear(t *testing.T) {
	for _, x := range []struct {
		name  string
		list  []*happening
		final uint64
		ok    bool
	}{
		{"nothing", nil, 0, true},
		{"out of nothing", nil, 1, false},
		{"one after the other", []*happening{
			step(1, 1, 2, wire.OpSum, 3).found(0), step(2, 3, 4, wire.OpSum, 4).found(3),
		}, 7, true},
		{"the other way round, at once", []*happening{
			step(1, 1, 4, wire.OpSum, 3).found(4), step(2, 2, 3, wire.OpSum, 4).found(0),
		}, 7, true},
		{"the other way round, one after the other", []*happening{
			step(1, 1, 2, wire.OpSum, 3).found(4), step(2, 3, 4, wire.OpSum, 4).found(0),
		}, 7, false},
		{"both found the same", []*happening{
			step(1, 1, 4, wire.OpSum, 3).found(0), step(2, 2, 3, wire.OpSum, 4).found(0),
		}, 7, false},
		{"one endpoint's are in order", []*happening{
			step(1, 1, 9, wire.OpWrite, 3), step(1, 2, 9, wire.OpWrite, 4), step(2, 3, 9, wire.OpRead, 0).found(3),
		}, 4, true},
		{"one endpoint's are not in order", []*happening{
			step(1, 1, 9, wire.OpWrite, 3), step(1, 2, 9, wire.OpWrite, 4), step(2, 3, 9, wire.OpRead, 0).found(4),
		}, 3, false},
		{"it must have happened", []*happening{step(1, 1, atLast, wire.OpSum, 3)}, 0, false},
		{"it may have happened", []*happening{step(1, 1, never, wire.OpSum, 3)}, 3, true},
		{"it may not have happened", []*happening{step(1, 1, never, wire.OpSum, 3)}, 0, true},
		{"the later one of one endpoint alone", []*happening{
			step(1, 1, never, wire.OpSum, 3), step(1, 2, atLast, wire.OpSum, 4),
		}, 4, false},
		{"the same, the earlier one canceled", []*happening{
			{Step: model.Step{Op: wire.OpSum, Bits: 16, Operand: 3}, from: 1, call: 1, end: never, canceled: true},
			step(1, 2, atLast, wire.OpSum, 4),
		}, 4, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			err := linear(x.list, 16, x.final)
			if x.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "no order of these")
		})
	}
}
