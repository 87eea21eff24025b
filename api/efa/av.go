package efa

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/internal/errtext"
	"github.com/efactor/efactor/runtime/shard"
)

// Addr is the handle of a peer in an address vector: an index from 0 in the order
// of insertion (FI_AV_TABLE). The lowest free one is used first.
type Addr uint64

const (
	// AnyAddr is every peer: the source of a receive that takes messages from all.
	AnyAddr = ^Addr(0)
	// NoAddr is a peer that is in no address vector: what a message came from, or what
	// Insert has refused.
	NoAddr = Addr(peer.Unlisted)
)

// AddressVector maps addresses to handles. Handles are looked up without locks;
// it may be used by any number of goroutines and by all endpoints of its domain.
type AddressVector struct {
	dom   *Domain
	cfg   AddressVectorConfig
	table avTable
	age   atomic.Uint64 // of the latest insertion

	// mu guards changes of table, and what follows. The shards take it too, so
	// nobody may wait for a shard meanwhile.
	mu     sync.RWMutex
	byAddr map[RawAddr]Addr
	eps    []*Endpoint
	closed bool
}

func newAV(d *Domain) *AddressVector {
	av := &AddressVector{dom: d, byAddr: make(map[RawAddr]Addr)}
	av.table.init()
	return av
}

// Insert adds one address and returns its handle. An address that is in the
// vector already keeps its handle. A peer that sent before its address was
// inserted is known by it from now on. Of several paths to the address that on the
// first of this fabric's devices which has one is taken, for good; without any the
// error is ErrAddrNotAvail.
func (av *AddressVector) Insert(a Address) (_ Addr, err error) {
	defer formed("insert", &err)
	return first(av.InsertAll(a))
}

// first is the outcome of an insertion of one address.
func first(hs []Addr, err error) (Addr, error) {
	if len(hs) == 0 {
		return NoAddr, err
	}
	var ie *InsertError
	if errors.As(err, &ie) {
		err = ie.Err
	}
	return hs[0], err
}

// InsertAll adds addresses in one step. Where one is refused the others are in all
// the same, its handle is one that no operation takes, and the error joins an
// [InsertError] for each.
func (av *AddressVector) InsertAll(as ...Address) ([]Addr, error) {
	handles, eps, err := av.insert(as)
	tellAll(eps, handles)
	return handles, err
}

// tellAll tells endpoints of new handles.
func tellAll(eps []*Endpoint, handles []Addr) {
	for _, e := range eps {
		e.inserted(handles)
	}
}

func (av *AddressVector) insert(as []Address) ([]Addr, []*Endpoint, error) {
	av.mu.Lock()
	defer av.mu.Unlock()
	return av.insertLocked(as, nil, "")
}

// insertLocked gives the peers a value, unless that is nil; name is what they will be called. The
// caller holds mu.
func (av *AddressVector) insertLocked(as []Address, value any, name string) ([]Addr, []*Endpoint, error) {
	if av.closed {
		return nil, nil, callError("insert", fmt.Errorf("%w: the address vector", ErrClosed))
	}
	handles := make([]Addr, len(as))
	var errs []error
	for i, a := range as {
		raw, path, err := av.dom.fab.choose(a, &av.cfg)
		if err != nil {
			errs = append(errs, &InsertError{Index: i, Err: err})
			handles[i] = NoAddr
			continue
		}
		h, ok := av.byAddr[raw]
		if !ok {
			x := avEntry{raw: raw, path: uint8(path), age: av.age.Add(1), value: value}
			if len(a.paths) > 1 {
				x.all = &a
			}
			h = Addr(av.table.add(x))
			av.byAddr[raw] = h
			av.dom.fab.chose(h, name, a, path)
		} else if value != nil {
			av.table.setValue(uint64(h), value)
		}
		handles[i] = h
	}
	return handles, slices.Clone(av.eps), errtext.Join(errs...)
}

// Remove takes a handle out. It returns when no endpoint uses it any more:
// operations in progress with the peer end with ErrCanceled. If ctx ends first
// the removal goes on by itself. A peer that is still alive and is inserted again
// resumes where it was.
func (av *AddressVector) Remove(ctx context.Context, h Addr) (err error) {
	defer formed("remove", &err)
	av.mu.Lock()
	raw, ok := av.lookup(h)
	if !ok {
		av.mu.Unlock()
		return errNoPeer(h)
	}
	av.table.remove(uint64(h))
	delete(av.byAddr, raw)
	eps := slices.Clone(av.eps)
	av.mu.Unlock()

	r := &removal{av: av, h: h}
	r.left.Store(int64(len(eps)) + 1)
	for _, e := range eps {
		e.removed(r)
	}
	r.done()
	for _, e := range eps {
		switch err := e.sh.Wait(ctx, &r.sig); {
		case err == nil:
			return nil
		case !errors.Is(err, shard.ErrClosed): // the others may still answer
			return contextError(ctx, err)
		}
	}
	return nil
}

// removal is a handle on its way out.
type removal struct {
	av   *AddressVector
	h    Addr
	left atomic.Int64 // endpoints that may use the handle, and Remove itself
	sig  shard.Signal
}

// done: one fewer uses the handle. Only after the last may it mean somebody else.
func (r *removal) done() {
	if r.left.Add(-1) > 0 {
		return
	}
	r.av.mu.Lock()
	r.av.table.release(uint64(r.h))
	r.av.mu.Unlock()
	r.sig.Set()
}

// removed makes the endpoint let go of a handle.
func (e *Endpoint) removed(r *removal) {
	if e.live() != nil {
		r.done()
		return
	}
	e.control(func() {
		e.act.Load().Remove(uint64(r.h))
		r.done()
	})
}

// Lookup returns the address of a handle, with all its paths, as it was inserted.
func (av *AddressVector) Lookup(h Addr) (_ Address, err error) {
	defer formed("lookup", &err)
	x := av.table.get(uint64(h))
	switch {
	case x.age == 0:
		return Address{}, errNoPeer(h)
	case x.all != nil:
		return *x.all, nil
	default:
		return NewAddress(av.dom.fab.paths[x.path].scheme, x.raw), nil
	}
}

// Device is the name of the device that carries to the peer with a handle.
func (av *AddressVector) Device(h Addr) (_ string, err error) {
	defer formed("lookup", &err)
	x := av.table.get(uint64(h))
	if x.age == 0 {
		return "", errNoPeer(h)
	}
	return av.dom.fab.paths[x.path].name, nil
}

func errNoPeer(h Addr) error { return fmt.Errorf("%w: no peer has the handle %d", ErrInvalid, h) }

// Len is the number of addresses.
func (av *AddressVector) Len() int {
	av.mu.RLock()
	defer av.mu.RUnlock()
	return len(av.byAddr)
}

// Close fails with ErrBusy while endpoints use the vector.
func (av *AddressVector) Close() (err error) {
	defer formed("close address vector", &err)
	av.mu.Lock()
	defer av.mu.Unlock()
	if n := len(av.eps); n > 0 {
		return fmt.Errorf("%w: %d endpoints use the address vector", ErrBusy, n)
	}
	av.closed = true
	return nil
}

func (av *AddressVector) bind(e *Endpoint) error {
	av.mu.Lock()
	defer av.mu.Unlock()
	if av.closed {
		return fmt.Errorf("%w: the address vector", ErrClosed)
	}
	av.eps = append(av.eps, e)
	return nil
}

func (av *AddressVector) unbind(e *Endpoint) {
	av.mu.Lock()
	defer av.mu.Unlock()
	av.eps = slices.DeleteFunc(av.eps, func(x *Endpoint) bool { return x == e })
}

func (av *AddressVector) lookup(h Addr) (RawAddr, bool) {
	x := av.table.get(uint64(h))
	return x.raw, x.age != 0
}

// gid is the GID of the peer's device; zero of a handle that is not in use.
func (av *AddressVector) gid(h uint64) device.GID {
	x := av.table.get(h)
	return x.raw.GID()
}
