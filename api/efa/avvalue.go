package efa

// InsertValue is Insert, and attaches a value to the peer in the same step, so that no
// message is known by the handle before it has the value. A peer that is in the vector
// already gets the value instead of what it had, but for nil.
func (av *AddressVector) InsertValue(a Address, v any) (_ Addr, err error) {
	defer formed("insert", &err)
	av.mu.Lock()
	hs, eps, err := av.insertLocked([]Address{a}, v, "")
	av.mu.Unlock()
	tellAll(eps, hs)
	return first(hs, err)
}

// SetValue attaches a value to a peer (fi_av_set_user_id), in place of the one that it had;
// nil: none. It is gone with the handle.
func (av *AddressVector) SetValue(h Addr, v any) (err error) {
	defer formed("set value", &err)
	av.mu.Lock()
	defer av.mu.Unlock()
	if _, ok := av.lookup(h); !ok {
		return errNoPeer(h)
	}
	av.table.setValue(uint64(h), v)
	return nil
}

// Value is what the application has attached to a peer: av.Value(c.From) with a completion,
// or av.Value(m.From) with a message. It is nil of a peer without a value, and of a handle
// that was removed or is none, [NoAddr] among them. It takes no lock and allocates nothing. As
// with the handle itself, a completion from before Remove may be read after the handle has
// become another peer's.
func (av *AddressVector) Value(h Addr) any { return av.table.value(uint64(h)) }
