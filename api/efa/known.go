package efa

import (
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// A blocking call has the error of an unknown handle from the shard, which looks the handle up
// in any case. A call that does not wait for the outcome looks by itself first.

// known checks that the handle of a request is one.
func (e *Endpoint) known(req *ope.Request) error {
	if !aimed(req) || e.cfg.AV.table.holds(req.Peer) {
		return nil
	}
	return errNoPeer(Addr(req.Peer))
}

// date notes which peer the handle of a request means, before the call waits: the handle may
// be removed, and used again, meanwhile.
func (e *Endpoint) date(req *ope.Request) {
	if aimed(req) && req.Flags&ope.Aged == 0 {
		req.SetAge(e.cfg.AV.table.get(req.Peer).age)
	}
}

// aimed reports whether a request is for one peer, or a receive from one.
func aimed(req *ope.Request) bool {
	switch req.Kind {
	case ope.KindSend, ope.KindWrite, ope.KindRead, ope.KindAtomic:
		return true
	case ope.KindRecv:
		return req.Peer < uint64(match.NotAvail)
	default:
		return false
	}
}

// holds reports whether a handle is in use: get without the copy.
func (t *avTable) holds(h uint64) bool {
	pages := *t.pages.Load()
	if h/pageSize >= uint64(len(pages)) {
		return false
	}
	x := pages[h/pageSize][h%pageSize].Load()
	return x != nil && x != leaving
}
