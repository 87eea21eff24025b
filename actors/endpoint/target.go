package endpoint

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
)

// Refusals are the accesses that peers may not make through an endpoint, whatever the rights
// of the memory that they name.
type Refusals uint8

// The accesses.
const (
	RefuseReads Refusals = 1 << iota
	RefuseWrites
	RefuseAtomics
)

// forbidden reports whether a request is one that the endpoint refuses, and refuses it. One that
// names no memory and has no data does nothing.
func (a *access) forbidden(pkt *peer.Packet) bool {
	if a.refuse == 0 || pkt.Ext.NRMA == 0 && !pkt.HasData {
		return false
	}
	kind := RefuseAtomics
	switch {
	case pkt.Type.IsRTR():
		kind = RefuseReads
	case pkt.Type.IsRTW():
		kind = RefuseWrites
	}
	if a.refuse&kind == 0 {
		return false
	}
	a.deny(pkt, fmt.Errorf("%w: the endpoint is no target of it", mr.ErrRight), errno.ProvRMAAddr)
	return true
}
