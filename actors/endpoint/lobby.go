package endpoint

import (
	"container/list"
	"iter"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
)

// lobby is the peers at their place that are in no address vector ("strangers"), in the
// order in which they came or were looked after, and how many there are from each host.
type lobby struct {
	order list.List
	where map[*peer.Link]*list.Element
	hosts map[device.AH]int
}

func (b *lobby) size() int { return len(b.where) }

// from is how many there are from a host.
func (b *lobby) from(ah device.AH) int { return b.hosts[ah] }

func (b *lobby) enter(l *peer.Link) {
	if b.where[l] != nil {
		return
	}
	if b.where == nil {
		b.where, b.hosts = make(map[*peer.Link]*list.Element), make(map[device.AH]int)
	}
	b.where[l] = b.order.PushBack(l)
	b.hosts[l.AH]++
}

// leave takes a peer out, if it is there.
func (b *lobby) leave(l *peer.Link) {
	e := b.where[l]
	if e == nil {
		return
	}
	b.order.Remove(e)
	delete(b.where, l)
	if b.hosts[l.AH]--; b.hosts[l.AH] == 0 {
		delete(b.hosts, l.AH)
	}
}

// next is the one that was not looked after for longest; there must be one.
func (b *lobby) next() *peer.Link {
	e := b.order.Front()
	b.order.MoveToBack(e)
	return e.Value.(*peer.Link)
}

// all yields the peers in their order.
func (b *lobby) all() iter.Seq[*peer.Link] {
	return func(yield func(*peer.Link) bool) {
		for e := b.order.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(*peer.Link)) {
				return
			}
		}
	}
}
