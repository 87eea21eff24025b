package ope

// A handle that was removed may be another peer's soon. A request whose caller had to wait
// before it could hand it over says which of the two it means: by the age of the handle, which
// is another one after each insertion.

// SetAge notes the age of the handle Peer. Requests without a peer have none.
func (r *Request) SetAge(age uint64) {
	r.Flags |= Aged
	if r.Kind == KindRecv {
		r.Key = age // no receive has a key, and what leaves ignores no bits of a tag
	} else {
		r.Ignore = age
	}
}

// Age is what SetAge has noted. Precondition: Aged is set.
func (r *Request) Age() uint64 {
	if r.Kind == KindRecv {
		return r.Key
	}
	return r.Ignore
}
