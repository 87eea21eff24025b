package shard

import (
	"os"
	"sync/atomic"
)

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
