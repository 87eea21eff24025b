package peer

import (
	"slices"

	"github.com/efactor/efactor/wire"
)

// untold is the ids of operations of ours that ended while the peer may have had something of
// them, and for which no PEER_ERROR could be sent: by which id it knows them was not known
// yet. It says that with CTS or READRSP, which PEER_ERROR answers.
type untold struct{ ids []uint32 }

// maxUntold is how many there may be. Of more the oldest are forgotten: their rest stays
// with the peer until we are gone.
const maxUntold = 1024

// Untold notes the id of one more.
func (l *Link) Untold(id uint32) {
	if l.untold == nil {
		l.untold = new(untold)
	}
	u := l.untold
	if len(u.ids) == maxUntold {
		u.ids = append(u.ids[:0], u.ids[1:]...)
	}
	u.ids = append(u.ids, id)
}

// Untold reports whether the packet, which names the operation id, is the peer's first word
// about it, after its end: then the endpoint answers. The operation may be there still, since
// the peer's answer can overtake the acknowledgement of what it answers.
func (p *Packet) Untold(id uint32) bool { return p.Link.untold.take(p, id) }

// take reports whether pkt is the first word about one of them, and forgets that one.
func (u *untold) take(pkt *Packet, id uint32) bool {
	if u == nil || pkt.Type != wire.TypeCTS && pkt.Type != wire.TypeREADRSP {
		return false
	}
	i := slices.Index(u.ids, id)
	if i < 0 {
		return false
	}
	u.ids = slices.Delete(u.ids, i, i+1)
	return true
}
