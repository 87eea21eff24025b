package efa

import (
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// book is the vector as an endpoint sees it (endpoint.AddressBook).
type book struct{ av *AddressVector }

func (b book) Address(h uint64) (wire.RawAddr, error) {
	switch x := b.av.table.get(h); {
	case x.leaving:
		return wire.RawAddr{}, peer.ErrRemoved
	case x.age == 0:
		return wire.RawAddr{}, errNoPeer(Addr(h))
	default:
		return x.raw, nil
	}
}

func (b book) Name(h uint64) string { return b.av.Name(Addr(h)) }

func (b book) Age(h uint64) uint64 { return b.av.table.get(h).age }

func (b book) Now() uint64 { return b.av.age.Load() }

func (b book) Handle(a wire.RawAddr) (uint64, bool) {
	b.av.mu.RLock()
	defer b.av.mu.RUnlock()
	h, ok := b.av.byAddr[a]
	return uint64(h), ok
}
