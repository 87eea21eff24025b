package ope

// Mix counts operations by subprotocol: those chosen here, first choices and what took
// their place, and those that peers chose for what they sent or asked for. Written on
// the shard.
type Mix struct {
	Chosen, Served [NumProtos]uint64
}

// Steps counts what the machines of an endpoint's operations did: how often each
// event came in each state. Written on the shard.
type Steps struct {
	tx [numTxStates][numTxEvents]uint64
	rx [numRxStates][numRxEvents]uint64

	caller [numCallerStates][numCallerEvents]uint64
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
