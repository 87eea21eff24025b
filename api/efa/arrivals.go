package efa

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/runtime/shard"
)

// Arrivals counts peers' writes with data by what their data says, so that "n writes with
// value v have arrived" is one wait, in whatever order they came and by whatever subprotocol:
//
//	ep, err := dom.NewEndpoint(efa.EndpointConfig{Arrivals: &efa.ArrivalsConfig{
//		Expected: []efa.Values{{First: 0, Last: 31}},
//	}})
//	err = ep.Arrivals().Wait(ctx, 7, 64, peer) // 64 writes with value 7 are in memory
//
// and at the other side, with the same layout:
//
//	data, err := efa.DataLayout{}.Data(7, generation)
//	err = memory.Write(ctx, page, efa.Data(data))
//
// A write counts once, when all of its bytes are in memory, also if there are none: any peer that
// may write here at all can send a write of 0 bytes, without a key. The data is 32 bits, since
// devices carry no more; a [DataLayout] divides them into a value and a generation. Writes of the
// present generation are counted for it, those of the next one for that, which begins with
// [Arrivals.Next]; all others come late, and are counted apart. Of values there are as many counts
// as were declared, so no peer can make them use more memory.
//
// A write that is counted, or late, has no [RemoteWrite] completion and no event. Those with
// data that is not expected are reported as if nothing were counted. RemoteWriteCounter counts all.
// All methods may be called by any number of goroutines.
type Arrivals struct {
	of     *Endpoint
	layout DataLayout
	ranges []counted // by their values

	round  atomic.Uint32      // the generation, of which the data has the lower bits
	counts [2][]atomic.Uint64 // by the lowest bit of the generation: it, and how many, 32 bits each

	late, early, unexpected atomic.Uint64

	mu    sync.Mutex // of those who change waits
	waits atomic.Pointer[[]*arrivalWait]
}

// ArrivalsConfig says what an endpoint counts.
type ArrivalsConfig struct {
	Layout DataLayout
	// Expected are the values that are counted, in any order, at most MaxArrivalValues in
	// all; none may be in two of them.
	Expected []Values
}

// MaxArrivalValues is the most values that an endpoint counts. Each takes 16 bytes.
const MaxArrivalValues = 1 << 20

// Values are those from First to Last, both included.
type Values struct{ First, Last uint32 }

func (c *ArrivalsConfig) check() error {
	if c == nil {
		return nil
	}
	if c.Layout.ValueBits < 0 || c.Layout.ValueBits > 32 {
		return fmt.Errorf("%w: a value of %d bits, at most 32", ErrInvalid, c.Layout.ValueBits)
	}
	n, most := uint64(0), c.Layout.MaxValue()
	list := c.sorted()
	for i, v := range list {
		switch {
		case v.Last < v.First || v.Last > most:
			return fmt.Errorf("%w: values %d to %d are to be counted, of %d at most", ErrInvalid, v.First, v.Last, most)
		case i > 0 && list[i-1].Last >= v.First:
			return fmt.Errorf("%w: value %d is expected twice", ErrInvalid, v.First)
		}
		n += uint64(v.Last-v.First) + 1
	}
	if n == 0 || n > MaxArrivalValues {
		return fmt.Errorf("%w: %d values are to be counted, at most %d", ErrInvalid, n, MaxArrivalValues)
	}
	return nil
}

// sorted are the expected values by the first.
func (c *ArrivalsConfig) sorted() []Values {
	return slices.SortedFunc(slices.Values(c.Expected), func(a, b Values) int { return cmp.Compare(a.First, b.First) })
}

// DataLayout says how the 32 bits of a write's data (its immediate, where a device writes)
// are divided:
//
//	 31            ValueBits           0
//	+---------------+-------------------+
//	|  generation   |       value       |
//	+---------------+-------------------+
//
// Both sides must use the same. The more bits the generation has, the later a write of an earlier
// one may come and be known as that: with b bits up to 2^b - 2 generations, and with one bit
// or none no write can come before its generation has begun. With none, all are counted for the
// present one.
type DataLayout struct {
	// ValueBits is how many bits are the value's, 1 to 32. 0 means 24, which leaves 8 for the
	// generation.
	ValueBits int
}

const defaultValueBits = 24

func (l DataLayout) bits() int {
	if l.ValueBits == 0 {
		return defaultValueBits
	}
	return l.ValueBits
}

// MaxValue is the highest value.
func (l DataLayout) MaxValue() uint32 { return uint32(uint64(1)<<l.bits() - 1) }

// generations is the mask of a generation's bits that the data has.
func (l DataLayout) generations() uint32 { return uint32(uint64(1)<<(32-l.bits()) - 1) }

// Data is the data of a write with this value, of which generation only the lower bits go
// along. ErrInvalid says that the value has more bits than the layout gives it.
func (l DataLayout) Data(value, generation uint32) (_ uint64, err error) {
	defer formed("data layout", &err)
	switch {
	case l.ValueBits < 0 || l.ValueBits > 32:
		return 0, fmt.Errorf("%w: a value of %d bits, at most 32", ErrInvalid, l.ValueBits)
	case value > l.MaxValue():
		return 0, fmt.Errorf("%w: value %d has more than %d bits", ErrInvalid, value, l.bits())
	}
	return uint64(generation&l.generations())<<l.bits()&math.MaxUint32 | uint64(value), nil
}

// split takes the lower 32 bits of data apart.
func (l DataLayout) split(data uint64) (value, mark uint32) {
	return uint32(data) & l.MaxValue(), uint32(uint64(uint32(data)) >> l.bits())
}

// counted are the values of a range, the first of which has the count number at.
type counted struct {
	Values
	at int
}

// newArrivals makes the Arrivals of an endpoint by its configuration, which was checked.
func newArrivals(cfg *ArrivalsConfig, of *Endpoint) *Arrivals {
	if cfg == nil {
		return nil
	}
	a := &Arrivals{of: of, layout: cfg.Layout}
	n := 0
	for _, v := range cfg.sorted() {
		a.ranges = append(a.ranges, counted{v, n})
		n += int(v.Last-v.First) + 1
	}
	for i := range a.counts {
		a.counts[i] = make([]atomic.Uint64, n)
	}
	return a
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

// counter is what the endpoint's actor asks about each write with data.
func (a *Arrivals) counter() func(int, uint64) bool {
	if a == nil {
		return nil
	}
	return func(_ int, data uint64) bool {
		counted := a.count(data)
		if c := a.of.cfg.RemoteWriteCounter; counted && c != nil {
			c.count(nil)
		}
		return counted
	}
}

// count counts a write that has ended. False: it is none of those that are counted. It runs
// on the shard, so one goroutine at a time changes counts.
func (a *Arrivals) count(data uint64) bool {
	value, mark := a.layout.split(data)
	i, ok := a.place(value)
	if data > math.MaxUint32 || !ok {
		a.unexpected.Add(1)
		return false
	}
	round := a.round.Load()
	if mask := a.layout.generations(); mask > 0 {
		switch (mark - round) & mask {
		case 0:
		case 1:
			if mask == 1 { // the generation before has the same bit
				a.late.Add(1)
				return true
			}
			round++
			a.early.Add(1)
		default:
			a.late.Add(1)
			return true
		}
	}
	c := &a.counts[round&1][i]
	if was := c.Load(); uint32(was>>32) != round {
		c.Store(uint64(round)<<32 | 1)
	} else if uint32(was) < math.MaxUint32 {
		c.Store(was + 1)
	}
	if list := a.waits.Load(); list != nil {
		for _, w := range *list {
			if w.round == round && w.First <= value && value <= w.Last && w.left.Add(-1) <= 0 {
				w.sig.Set()
			}
		}
	}
	return true
}

// place finds the count of a value.
func (a *Arrivals) place(value uint32) (int, bool) {
	lo, hi := 0, len(a.ranges)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch r := &a.ranges[mid]; {
		case value < r.First:
			hi = mid
		case value > r.Last:
			lo = mid + 1
		default:
			return r.at + int(value-r.First), true
		}
	}
	return 0, false
}

// arrivalWait is a Wait in progress.
type arrivalWait struct {
	Values
	round uint32
	// left is how many arrivals are missing, or fewer: then the waiter looks for nothing.
	left atomic.Int64
	waiter
}

// waiter waits for something that peers do, and that may not happen any more once one of them
// or the endpoint has ended.
type waiter struct {
	sig     shard.Signal
	ended   atomic.Pointer[error] // of a peer, or of the endpoint
	watches []*endpoint.Watch
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
	list := without(slices.Clone(*a.waits.Load()), w) // others may be looking at it
	if len(list) == 0 {
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
