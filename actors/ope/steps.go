package ope

import "fmt"

// The tables of the machines have as many rows and columns as the halves of a byte have values, so
// that no index of a step needs a check.
const (
	maxStates = 16
	maxEvents = 16
)

// moves is the table of a machine as its steps look it up, by entryOf: the next state, or noMove if
// there is no edge.
type moves [maxStates * maxEvents]uint8

// noMove is no state of any machine.
const noMove = maxStates - 1

// entryOf is where moves and Steps have an event in a state.
func entryOf(state, event uint8) uint8 { return state*maxEvents | event%maxEvents }

// movesOf makes them of the table, which next looks up.
func movesOf(next func(state, event int) (uint8, bool)) (m moves) {
	for s := range maxStates {
		for e := range maxEvents {
			n, ok := next(s, e)
			if !ok {
				n = noMove
			}
			m[entryOf(uint8(s), uint8(e))] = n
		}
	}
	return m
}

// noEdge is the error of an event for which a machine's table has no entry.
func noEdge(event, state fmt.Stringer) error {
	return fmt.Errorf("%w: %s in state %s", ErrViolation, event, state)
}

// Mix counts operations by subprotocol: those chosen here, first choices and what took
// their place, and those that peers chose for what they sent or asked for. Written on
// the shard.
type Mix struct {
	Chosen, Served [NumProtos]uint64
}

// Steps counts what the machines of an endpoint's operations did: how often each
// event came in each state. Written on the shard.
type Steps struct {
	tx, rx, caller [maxStates * maxEvents]uint64 // by entryOf
}

// Each calls f for every pair that the tables allow, whether it ever came or not:
// first of sending, then of receiving, then of callers, in the order of states and events.
func (c *Steps) Each(f func(machine, state, event string, n uint64)) {
	for i, n := range c.tx {
		if s, e := i/maxEvents, i%maxEvents; txTable[s][e].ok {
			f("tx", txNames[s], txEventNames[e], n)
		}
	}
	for i, n := range c.rx {
		if s, e := i/maxEvents, i%maxEvents; rxTable[s][e].ok {
			f("rx", rxNames[s], rxEventNames[e], n)
		}
	}
	for i, n := range c.caller {
		if s, e := i/maxEvents, i%maxEvents; callerTable[s][e].ok {
			f("caller", callerNames[s], callerEventNames[e], n)
		}
	}
}
