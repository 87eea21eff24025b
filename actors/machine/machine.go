// Package machine has what the protocol's machines share: tables of (state, event) -> state. Package ope has
// those of operations, package peer those of a remote endpoint.
//
// A machine is pure: the actor around it says what happened, and acts on the state.
//
//	var tx = machine.Of(func(s, e int) (uint8, bool) { n := txTable[s][e]; return uint8(n.next), n.ok })
//
//	next := tx[machine.Entry(uint8(state), uint8(event))]
//	if next == machine.None {
//		return machine.NoEdge(event, state)
//	}
package machine

import (
	"errors"
	"fmt"
)

// Tables have as many rows and columns as the halves of a byte have values, so that no index of a step needs a
// check.
const (
	States = 16
	Events = 16
)

// Moves is the table of a machine as its steps look it up, by [Entry]: the next state, or [None] if there is no
// edge.
type Moves [States * Events]uint8

// None is no state of any machine.
const None = States - 1

// Counts is how often each event came in each state, by [Entry].
type Counts [States * Events]uint64

// Each calls f for every pair of a state and an event for which m has an edge, in their order.
func (c *Counts) Each(m *Moves, f func(state, event int, n uint64)) {
	for i, n := range c {
		if m[i] != None {
			f(i/Events, i%Events, n)
		}
	}
}

// Entry is where [Moves] and [Counts] have an event in a state.
func Entry(state, event uint8) uint8 { return state*Events | event%Events }

// Of makes the table that next looks up.
func Of(next func(state, event int) (uint8, bool)) (m Moves) {
	for s := range States {
		for e := range Events {
			n, ok := next(s, e)
			if !ok {
				n = None
			}
			m[Entry(uint8(s), uint8(e))] = n
		}
	}
	return m
}

// ErrViolation is wrapped by errors about events that a state does not allow.
var ErrViolation = errors.New("protocol violation")

// NoEdge is the error of an event for which a machine's table has no entry.
func NoEdge(event, state fmt.Stringer) error {
	return fmt.Errorf("%w: %s in state %s", ErrViolation, event, state)
}
