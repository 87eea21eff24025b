package shard

import (
	"os"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/sys"
)

// Signal is a flag that completes a wait. The zero value is ready. Any goroutine
// and any shard may set it, any number of times; one goroutine at a time waits
// for it.
type Signal struct {
	state atomic.Uint64

	here bool // its waiter runs the shard; the shard owner's

	// Written by the waiter before it parks, read by the goroutine that finds it parked.
	s    *Shard
	ch   chan struct{} // holds the one token that ends a park; made at the first
	next *Signal       // in the notifier's stack

	// In the list of parked waiters of a manual shard, under its mutex.
	before, after *Signal
	listed        bool
}

// States of a Signal. A goroutine that takes it out of parked, other than its waiter,
// sends a token.
const (
	sigUnset uint64 = iota
	sigSet
	sigParked
)

// Reset makes the signal ready for another wait. No goroutine may be waiting.
func (g *Signal) Reset() { g.state.Store(sigUnset) }

// Clear is Reset, without a barrier, of a signal that no other goroutine knows until it is handed out again.
func (g *Signal) Clear() { sys.StoreRelease(&g.state, sigUnset) }

// IsSet reports whether Set was called since Reset.
func (g *Signal) IsSet() bool { return g.state.Load() == sigSet }

// Set ends the wait. It never blocks and never allocates.
func (g *Signal) Set() {
	if g.state.Swap(sigSet) == sigParked {
		g.deliver()
	}
}

// SetByOwner is Set by the owner of the shard on which the signal is waited for. If the owner is the
// waiter, no other goroutine looks at the signal, and it is set without a barrier.
func (g *Signal) SetByOwner() {
	if g.here {
		sys.StoreRelease(&g.state, sigSet)
		return
	}
	g.Set()
}

// deliver sends the token of a signal that was just set, and whose waiter is parked.
func (g *Signal) deliver() {
	s := g.s
	if s.notifier != nil {
		s.notifier.push(g)
		return
	}
	g.token()
	if s.owner.isCallerFast() {
		s.woke = true
	}
}

// park announces that the caller is about to wait for the token. It reports false if
// the signal is set, so that there will be none.
func (g *Signal) park(s *Shard) bool {
	if g.ch == nil {
		g.ch = make(chan struct{}, 1)
	}
	g.s = s
	return g.state.CompareAndSwap(sigUnset, sigParked)
}

// unpark takes the announcement back. It reports false if a token is on its way.
func (g *Signal) unpark() bool { return g.state.CompareAndSwap(sigParked, sigUnset) }

// token ends the park.
func (g *Signal) token() {
	select {
	case g.ch <- struct{}{}:
	default: // never: one token a park, and each is taken
	}
}

// notifier wakes goroutines for a pinned shard: any goroutine may push, its own
// goroutine sends the tokens. A channel operation on a locked
// thread would leave the woken goroutine in that thread's own run queue, 0.1 ms
// from another processor; so the thread pushes the signal on a stack, and a
// goroutine that waits in the network poller sends the token.
type notifier struct {
	stack atomic.Pointer[Signal]
	bell  eventFD
	file  *os.File
}

func newNotifier() (*notifier, error) {
	n := &notifier{}
	if err := n.bell.open(); err != nil {
		return nil, err
	}
	n.file = os.NewFile(uintptr(n.bell.fd), "eventfd")
	return n, nil
}

// push hands g, whose state has just left parked, to the notifier. Its waiter
// does not return before it has the token, so g stays valid and is pushed once.
func (n *notifier) push(g *Signal) {
	for {
		top := n.stack.Load()
		g.next = top
		if n.stack.CompareAndSwap(top, g) {
			// The first push on an empty stack rings; later ones are popped with it.
			if top == nil && !n.bell.signal() {
				n.flush()
			}
			return
		}
	}
}

// flush sends the tokens of all signals on the stack, oldest first.
func (n *notifier) flush() {
	var list *Signal
	for g := n.stack.Swap(nil); g != nil; {
		below := g.next
		g.next = list
		list, g = g, below
	}
	for list != nil {
		g := list
		list, g.next = g.next, nil // after the token g is its waiter's again
		g.token()
	}
}

// run is the notifier's goroutine.
func (n *notifier) run() {
	var buf [8]byte
	for {
		_, err := n.file.Read(buf[:])
		n.flush()
		if err != nil {
			return
		}
	}
}

// stop ends run. Signals that are set later send their tokens themselves.
func (n *notifier) stop() {
	n.bell.seal()
	_ = n.file.Close()
}
