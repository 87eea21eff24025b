package efa

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/runtime/shard"
)

// EventKind tells events apart.
type EventKind = endpoint.EventKind

// The kinds of event.
const (
	// PeerFailed: a peer died, fell silent or was replaced; what was in
	// progress with it has failed.
	PeerFailed = endpoint.PeerFailed
	// MemoryPressure: unexpected messages use all the memory they may, so
	// senders are held back until receives are posted. MemoryRelieved ends it.
	MemoryPressure = endpoint.MemoryPressure
	MemoryRelieved = endpoint.MemoryRelieved
	// DeviceFailed: the endpoint is unusable and every operation has failed.
	DeviceFailed = endpoint.DeviceFailed
	// NewPeer: an endpoint in no address vector sent something; its address
	// can be inserted to answer.
	NewPeer = endpoint.NewPeer
)

// Event is something that belongs to no operation (fi_eq).
type Event struct {
	Kind    EventKind
	Peer    Addr // AnyAddr if it is in no address vector
	Address Address
	Err     error
}

// events keeps the latest events for readers; the oldest go first when nobody
// reads them.
type events struct {
	mu     sync.Mutex
	max    int
	list   []Event
	lost   uint64
	done   bool
	signal *shard.Signal // of a waiting reader
}

func (v *events) init(n int) {
	if n <= 0 {
		n = 256
	}
	v.max = n
}

func (c *core) onEvent(ev endpoint.Event) {
	e := Event{Kind: ev.Kind, Peer: Addr(ev.Handle), Err: ev.Err}
	if e.Peer >= notAvail {
		e.Peer = AnyAddr
	}
	if ev.Addr != (RawAddr{}) {
		e.Address = NewAddress(c.dom.scheme, ev.Addr)
	}
	v := &c.events
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.list) == v.max {
		v.list = append(v.list[:0], v.list[1:]...)
		v.lost++
	}
	v.list = append(v.list, e)
	if v.signal != nil {
		v.signal.Set()
	}
}

func (v *events) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done = true
	if v.signal != nil {
		v.signal.Set()
	}
}

// TryEvent returns the oldest event that was not read yet.
func (e *Endpoint) TryEvent() (Event, bool) {
	v := &e.events
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pop()
}

func (v *events) pop() (Event, bool) {
	if len(v.list) == 0 {
		return Event{}, false
	}
	ev := v.list[0]
	v.list = append(v.list[:0], v.list[1:]...)
	return ev, true
}

// NextEvent waits for the next event: for ctx, and until the endpoint is closed.
// One goroutine at a time.
func (e *Endpoint) NextEvent(ctx context.Context) (Event, error) {
	v := &e.events
	var sig shard.Signal
	for {
		v.mu.Lock()
		ev, ok := v.pop()
		done := v.done
		sig.Reset()
		v.signal = &sig
		v.mu.Unlock()
		switch {
		case ok:
			return ev, nil
		case done:
			return Event{}, fmt.Errorf("%w: endpoint", ErrClosed)
		}
		if err := e.sh.Wait(ctx, &sig); err != nil {
			return Event{}, contextError(ctx, err)
		}
	}
}

// Events yields events until ctx ends or the endpoint is closed.
func (e *Endpoint) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			ev, err := e.NextEvent(ctx)
			if err != nil || !yield(ev) {
				return
			}
		}
	}
}
