package efa

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Addr is the handle of a peer in an address vector: an index from 0 in the order
// of insertion (FI_AV_TABLE). The lowest free one is used first.
type Addr uint64

// AnyAddr is every peer: the source of a receive that takes messages from all.
const AnyAddr = ^Addr(0)

// notAvail is a sender that is in no address vector.
const notAvail = Addr(peer.Unlisted)

// AddressVector maps addresses to handles. Handles are looked up without locks;
// it may be used by any number of goroutines and by all endpoints of its domain.
type AddressVector struct {
	dom *Domain

	// addrs is by handle, zero where free. A published slice is never changed,
	// but for what lies beyond its end.
	addrs atomic.Pointer[[]avEntry]
	age   atomic.Uint64 // of the latest insertion

	mu     sync.RWMutex // guards what follows, and changing addrs
	byAddr map[RawAddr]Addr
	free   []Addr // descending, so that the lowest is last
	eps    []*core
}

// avEntry is an address and when it was inserted.
type avEntry struct {
	raw RawAddr
	age uint64
}

// InsertError says which of the addresses given to Insert was not taken.
type InsertError struct {
	Index int
	Err   error
}

// Error names the address by its place.
func (e *InsertError) Error() string { return fmt.Sprintf("address %d: %v", e.Index, e.Err) }

// Unwrap gives the cause.
func (e *InsertError) Unwrap() error { return e.Err }

func newAV(d *Domain) *AddressVector {
	av := &AddressVector{dom: d, byAddr: make(map[RawAddr]Addr)}
	av.addrs.Store(new([]avEntry))
	return av
}

// Insert adds one address and returns its handle. An address that is in the
// vector already keeps its handle. A peer that sent before its address was
// inserted is known by it from now on.
func (av *AddressVector) Insert(a Address) (Addr, error) {
	h, err := av.InsertAll(a)
	if err != nil {
		var ie *InsertError
		if errors.As(err, &ie) {
			err = ie.Err
		}
		return notAvail, err
	}
	return h[0], nil
}

// InsertAll adds addresses in one step. Where one is refused its handle is of no
// use, the others are in, and the error joins an [InsertError] for each.
func (av *AddressVector) InsertAll(as ...Address) ([]Addr, error) {
	av.mu.Lock()
	defer av.mu.Unlock()
	addrs := *av.addrs.Load()
	if len(av.free) > 0 {
		addrs = slices.Clone(addrs)
	}
	handles := make([]Addr, len(as))
	var errs []error
	for i, a := range as {
		raw, err := av.check(a)
		if err != nil {
			errs = append(errs, &InsertError{Index: i, Err: err})
			handles[i] = notAvail
			continue
		}
		h, ok := av.byAddr[raw]
		if !ok {
			h, addrs = av.place(addrs, raw)
		}
		handles[i] = h
	}
	av.addrs.Store(&addrs)
	for _, e := range av.eps {
		e.inserted(handles)
	}
	return handles, errors.Join(errs...)
}

func (av *AddressVector) check(a Address) (RawAddr, error) {
	raw, ok := a.Raw(av.dom.scheme)
	switch {
	case !ok:
		return raw, fmt.Errorf("%w: %q has no path on a %s device", errAddr, a, av.dom.scheme)
	case raw.GID() == [16]byte{}:
		return raw, fmt.Errorf("%w: the GID of %q is zero", errAddr, a)
	}
	return raw, nil
}

func (av *AddressVector) place(addrs []avEntry, raw RawAddr) (Addr, []avEntry) {
	h, x := Addr(len(addrs)), avEntry{raw, av.age.Add(1)}
	if n := len(av.free); n > 0 {
		h, av.free = av.free[n-1], av.free[:n-1]
		addrs[h] = x
	} else {
		addrs = append(addrs, x)
	}
	av.byAddr[raw] = h
	return h, addrs
}

// errAddr is FI_EADDRNOTAVAIL.
var errAddr = Errno(99)

// Remove takes a handle out. It returns when no endpoint uses it any more:
// operations in progress with the peer end with ErrCanceled. A peer that is
// still alive and is inserted again resumes where it was.
func (av *AddressVector) Remove(ctx context.Context, h Addr) error {
	av.mu.Lock()
	raw, ok := av.lookup(h)
	if !ok {
		av.mu.Unlock()
		return fmt.Errorf("%w: no peer has the handle %d", ErrInvalid, h)
	}
	addrs := slices.Clone(*av.addrs.Load())
	addrs[h] = avEntry{}
	av.addrs.Store(&addrs)
	delete(av.byAddr, raw)
	eps := slices.Clone(av.eps)
	av.mu.Unlock()

	var errs []error
	for _, e := range eps {
		if err := e.removed(ctx, h); err != nil && !errors.Is(err, shard.ErrClosed) {
			errs = append(errs, err)
		}
	}
	// Only now may the handle mean somebody else.
	av.mu.Lock()
	defer av.mu.Unlock()
	i, _ := slices.BinarySearchFunc(av.free, h, func(a, b Addr) int { return cmp.Compare(b, a) })
	av.free = slices.Insert(av.free, i, h)
	return errors.Join(errs...)
}

// Lookup returns the address of a handle.
func (av *AddressVector) Lookup(h Addr) (Address, error) {
	raw, ok := av.lookup(h)
	if !ok {
		return Address{}, fmt.Errorf("%w: no peer has the handle %d", ErrInvalid, h)
	}
	return NewAddress(av.dom.scheme, raw), nil
}

// Len is the number of addresses.
func (av *AddressVector) Len() int {
	av.mu.RLock()
	defer av.mu.RUnlock()
	return len(av.byAddr)
}

// Close fails with ErrBusy while endpoints use the vector.
func (av *AddressVector) Close() error {
	av.mu.Lock()
	defer av.mu.Unlock()
	if n := len(av.eps); n > 0 {
		return fmt.Errorf("%w: %d endpoints use the address vector", ErrBusy, n)
	}
	return nil
}

func (av *AddressVector) bind(e *core) {
	av.mu.Lock()
	defer av.mu.Unlock()
	av.eps = append(av.eps, e)
}

func (av *AddressVector) unbind(e *core) {
	av.mu.Lock()
	defer av.mu.Unlock()
	av.eps = slices.DeleteFunc(av.eps, func(x *core) bool { return x == e })
}

func (av *AddressVector) lookup(h Addr) (RawAddr, bool) {
	addrs := *av.addrs.Load()
	if h >= Addr(len(addrs)) || addrs[h].age == 0 {
		return RawAddr{}, false
	}
	return addrs[h].raw, true
}

// book is the vector as an endpoint sees it (endpoint.AddressBook).
type book struct{ av *AddressVector }

func (b book) Address(h uint64) (wire.RawAddr, bool) { return b.av.lookup(Addr(h)) }

func (b book) Age(h uint64) uint64 {
	if addrs := *b.av.addrs.Load(); h < uint64(len(addrs)) {
		return addrs[h].age
	}
	return 0
}

func (b book) Now() uint64 { return b.av.age.Load() }

func (b book) Handle(a wire.RawAddr) (uint64, bool) {
	b.av.mu.RLock()
	defer b.av.mu.RUnlock()
	h, ok := b.av.byAddr[a]
	return uint64(h), ok
}
