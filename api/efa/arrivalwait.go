package efa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// waiter waits for something that peers do, and that may not happen any more once one of them
// or the endpoint has ended.
type waiter struct {
	sig     shard.Signal
	ended   atomic.Pointer[error] // of a peer, or of the endpoint
	watches []*endpoint.Watch
}

// Wait returns when n writes with the value have arrived in this generation. It ends with the error of
// a named peer as soon as that has failed, which takes PeerTimeout at most; with ErrClosed or ErrIO when the
// endpoint ends; with ErrBadState when the generation does; with ErrInvalid if the value is not
// expected; or with ctx's error. If no peer is named, none is probed: should one die to which this
// side sends nothing, only ctx ends the wait.
func (a *Arrivals) Wait(ctx context.Context, value uint32, n int, peers ...Addr) error {
	return a.WaitRange(ctx, Values{value, value}, n, peers...)
}

// WaitRange returns when n writes in all have arrived with values from First to Last, which must lie in
// one of those that are expected; see Wait.
func (a *Arrivals) WaitRange(ctx context.Context, v Values, n int, peers ...Addr) error {
	if err := a.wait(ctx, v, n, peers); err != nil {
		return callError("wait", err)
	}
	return nil
}

func (a *Arrivals) wait(ctx context.Context, v Values, n int, peers []Addr) error {
	round := a.round.Load()
	have, err := a.sum(v, round)
	if err != nil || have >= uint64(max(n, 0)) {
		return err
	}
	if err := a.of.live(); err != nil {
		return err
	}
	w := &arrivalWait{Values: v, round: round}
	w.watch(a.of, peers)
	defer w.unwatch(a.of)
	a.add(w)
	defer a.drop(w)
	if have, _ = a.sum(v, round); have >= uint64(n) {
		return nil
	}
	w.left.Add(int64(n) - int64(have))
	for {
		w.sig.Reset()
		have, _ = a.sum(v, round)
		ended := w.ended.Load()
		switch {
		case have >= uint64(n):
			return nil
		case ended != nil:
			return fmt.Errorf("%d of %d writes with values %d to %d have arrived: %w", have, n, v.First, v.Last, *ended)
		case a.round.Load() != round:
			return fmt.Errorf("%w: generation %d has ended", ErrBadState, round)
		}
		if err := a.of.sh.Wait(ctx, &w.sig); err != nil {
			return contextError(ctx, err)
		}
	}
}

// Count is how many writes with the value have arrived in this generation; 0 of a value that
// is not expected.
func (a *Arrivals) Count(value uint32) uint64 {
	n, _ := a.sum(Values{value, value}, a.round.Load())
	return n
}

// Generation is the present one. The first is 0.
func (a *Arrivals) Generation() uint32 { return a.round.Load() }

// Next begins the next generation and returns it. What has arrived for it counts already; what
// arrives for those before is late from now on. A Wait that is still in progress ends with ErrBadState.
func (a *Arrivals) Next() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	round := a.round.Add(1)
	if list := a.waits.Load(); list != nil {
		for _, w := range *list {
			w.sig.Set()
		}
	}
	return round
}

// ArrivalStats are counts since the endpoint was made.
type ArrivalStats struct {
	Late       uint64 // of an earlier generation: counted nowhere else
	Early      uint64 // of the generation that followed: counted for that
	Unexpected uint64 // with data that is not expected: reported like any write with data
}

// Stats returns the counts of writes that came out of turn.
func (a *Arrivals) Stats() ArrivalStats {
	return ArrivalStats{Late: a.late.Load(), Early: a.early.Load(), Unexpected: a.unexpected.Load()}
}

// sum adds up the counts of a range.
func (a *Arrivals) sum(v Values, round uint32) (n uint64, err error) {
	first, ok := a.place(v.First)
	last, also := a.place(v.Last)
	if !ok || !also || v.Last < v.First || last-first != int(v.Last-v.First) {
		return 0, fmt.Errorf("%w: values %d to %d are not expected", ErrInvalid, v.First, v.Last)
	}
	counts := a.counts[round&1]
	for i := first; i <= last; i++ {
		if c := counts[i].Load(); uint32(c>>32) == round {
			n += uint64(uint32(c))
		}
	}
	return n, nil
}

func (a *Arrivals) add(w *arrivalWait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*arrivalWait
	if was := a.waits.Load(); was != nil {
		list = *was
	}
	list = append(slices.Clip(list), w)
	a.waits.Store(&list)
}

func (a *Arrivals) drop(w *arrivalWait) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*arrivalWait
	for _, x := range *a.waits.Load() { // to which others may be looking
		if x != w {
			list = append(list, x)
		}
	}
	if list == nil {
		a.waits.Store(nil)
		return
	}
	a.waits.Store(&list)
}

// watch sees that the waiter hears of the end of the endpoint and of these peers.
func (w *waiter) watch(e *Endpoint, peers []Addr) {
	onEnd := func(err error) {
		w.ended.CompareAndSwap(nil, &err)
		w.sig.Set()
	}
	w.watches = append(w.watches, &endpoint.Watch{Peer: uint64(NoAddr), OnEnd: onEnd})
	for _, p := range peers {
		if p >= NoAddr {
			onEnd(fmt.Errorf("%w: %d is no peer", ErrInvalid, p))
			return
		}
		w.watches = append(w.watches, &endpoint.Watch{Peer: uint64(p), OnEnd: func(err error) {
			onEnd(e.waitError(p, err))
		}})
	}
	act := e.act.Load()
	e.control(func() {
		for _, x := range w.watches {
			act.BeginWatch(x)
		}
	})
}

// unwatch lets go of what watch has begun.
func (w *waiter) unwatch(e *Endpoint) {
	act := e.act.Load()
	e.control(func() {
		for _, x := range w.watches {
			act.EndWatch(x)
		}
	})
}

// waitError is the error of a wait for something of a peer's that has ended.
func (e *Endpoint) waitError(p Addr, err error) error {
	q, r := ope.Request{Kind: ope.KindRecv, Peer: uint64(p)}, ope.Result{Err: err, Peer: uint64(p)}
	err = e.opError(&q, &r)
	if x := new(OpError); errors.As(err, &x) {
		x.Op = "wait"
	}
	return err
}
