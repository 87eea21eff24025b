package efatest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efatest/internal/model"
	"github.com/efactor/efactor/wire"
)

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
