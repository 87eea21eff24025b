package ope

import "fmt"

// The tables of the machines have more rows and columns than states and events, powers of
// two, so that no index of a step needs a check.
const (
	maxStates = 8
	maxEvents = 16
)

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
	tx [maxStates][maxEvents]uint64
	rx [maxStates][maxEvents]uint64

	caller [maxStates][maxEvents]uint64
}

// Each calls f for every pair that the tables allow, whether it ever came or not:
// first of sending, then of receiving, then of callers, in the order of states and events.
func (c *Steps) Each(f func(machine, state, event string, n uint64)) {
	for s := range c.tx {
		for e, n := range c.tx[s] {
			if txTable[s][e].ok {
				f("tx", txNames[s], txEventNames[e], n)
			}
		}
	}
	for s := range c.rx {
		for e, n := range c.rx[s] {
			if rxTable[s][e].ok {
				f("rx", rxNames[s], rxEventNames[e], n)
			}
		}
	}
	for s := range c.caller {
		for e, n := range c.caller[s] {
			if callerTable[s][e].ok {
				f("caller", callerNames[s], callerEventNames[e], n)
			}
		}
	}
}
