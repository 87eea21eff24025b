package efa

import "github.com/efactor/efactor/wire"

// InsertNamed is Insert, and names the peer in the same step, see SetName. A peer that is in
// the vector already gets the name instead of what it had, but for "".
func (av *AddressVector) InsertNamed(a Address, name string) (_ Addr, err error) {
	defer formed("insert", &err)
	av.mu.Lock()
	hs, eps, err := av.insertLocked([]Address{a}, nil, name)
	if len(hs) > 0 && hs[0] < NoAddr && name != "" {
		av.table.setName(uint64(hs[0]), name)
	}
	av.mu.Unlock()
	tellAll(eps, hs)
	return first(hs, err)
}

// SetName says what a peer is called in errors and logs, "rank 3 on node7" for instance, in
// place of what it was called before; "": nothing but its handle. Nothing is ever looked up by
// a name, and two peers may have the same one. It is gone with the handle.
func (av *AddressVector) SetName(h Addr, name string) (err error) {
	defer formed("set name", &err)
	av.mu.Lock()
	defer av.mu.Unlock()
	if _, ok := av.lookup(h); !ok {
		return errNoPeer(h)
	}
	av.table.setName(uint64(h), name)
	return nil
}

// Name is what a peer is called; "" of a peer without a name, and of a handle that was removed
// or is none. It takes no lock and allocates nothing.
func (av *AddressVector) Name(h Addr) string { return av.table.get(uint64(h)).name }

// who gives the handle and name of the peer at an address on this fabric.
func (av *AddressVector) who(a wire.RawAddr) (handle uint64, name string, ok bool) {
	h, ok := book{av}.Handle(a)
	if !ok {
		return 0, "", false
	}
	return h, av.Name(Addr(h)), true
}

// setName names a handle that is in use.
func (t *avTable) setName(h uint64, name string) {
	x := t.get(h)
	x.name = name
	t.put(h, &x)
}
