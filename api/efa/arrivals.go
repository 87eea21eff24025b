package efa

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
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

// counted are the values of a range, the first of which has the count number at.
type counted struct {
	Values
	at int
}

// arrivalWait is a Wait in progress.
type arrivalWait struct {
	Values
	round uint32
	// left is how many arrivals are missing, or fewer: then the waiter looks for nothing.
	left atomic.Int64
	waiter
}

func (c *ArrivalsConfig) check() error {
	if c == nil {
		return nil
	}
	if c.Layout.ValueBits < 0 || c.Layout.ValueBits > 32 {
		return fmt.Errorf("%w: a value of %d bits, at most 32", ErrInvalid, c.Layout.ValueBits)
	}
	n, most := uint64(0), c.Layout.MaxValue()
	list := slices.Clone(c.Expected)
	slices.SortFunc(list, byFirst)
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

func byFirst(a, b Values) int {
	if a.First < b.First {
		return -1
	}
	return 1
}

// newArrivals makes those that an endpoint's configuration, which was checked, asks for.
func newArrivals(of *Endpoint) *Arrivals {
	cfg := of.cfg.Arrivals
	if cfg == nil {
		return nil
	}
	a := &Arrivals{of: of, layout: cfg.Layout}
	list := slices.Clone(cfg.Expected)
	slices.SortFunc(list, byFirst)
	n := 0
	for _, v := range list {
		a.ranges = append(a.ranges, counted{v, n})
		n += int(v.Last-v.First) + 1
	}
	for i := range a.counts {
		a.counts[i] = make([]atomic.Uint64, n)
	}
	return a
}

// Arrivals counts the writes that peers make here; nil without EndpointConfig.Arrivals.
func (e *Endpoint) Arrivals() *Arrivals { return e.arrivals }

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

// counter is what the endpoint's actor asks about each write with data.
func (a *Arrivals) counter() func(int, uint64) bool {
	if a == nil {
		return nil
	}
	return func(n int, data uint64) bool {
		counted := a.count(data)
		if c := a.of.cfg.RemoteWriteCounter; counted && c != nil {
			c.count(n, nil)
		}
		return counted
	}
}
