package endpoint

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// Watch hears of the end of a peer, or of the endpoint, as a posted receive from that peer
// would; as with one, the peer is probed when it is silent. No message satisfies it.
type Watch struct {
	Peer  uint64      // the handle; one that names no peer: the endpoint alone is watched
	OnEnd func(error) // is called on the shard, at most once

	link *peer.Link
}

// BeginWatch begins to watch, or says at once why there is nothing to watch any more. It runs
// on the shard.
func (e *Endpoint) BeginWatch(w *Watch) {
	switch {
	case e.closing.state != open:
		w.OnEnd(e.closing.err())
		return
	case w.Peer >= uint64(match.NotAvail):
	case e.port != nil:
		w.OnEnd(fmt.Errorf("%w: peers of an endpoint without the protocol are not watched", errno.ErrNotSupported))
		return
	default:
		l, err := e.peers.link(w.Peer)
		if err == nil {
			err = l.Closed()
		}
		if err != nil {
			w.OnEnd(err)
			return
		}
		w.link = l
		l.Await()
	}
	e.watches.list = append(e.watches.list, w)
}

// EndWatch ends a watch, if that has not ended by itself. It runs on the shard.
func (e *Endpoint) EndWatch(w *Watch) {
	for i, x := range e.watches.list {
		if x == w {
			e.watches.list = append(e.watches.list[:i], e.watches.list[i+1:]...)
			w.over()
			return
		}
	}
}

func (w *Watch) over() {
	if w.link != nil {
		w.link.Awaited()
		w.link = nil
	}
}

// watches are those of an endpoint.
type watches struct{ list []*Watch }

// fail ends those that keep does not want; it is asked about a receive from the peer.
func (s *watches) fail(keep func(*ope.Order) bool, err error) {
	if len(s.list) == 0 {
		return
	}
	var kept, doomed []*Watch
	for _, w := range s.list {
		o := ope.Order{Req: ope.Request{Peer: w.Peer}}
		if keep(&o) {
			kept = append(kept, w)
		} else {
			doomed = append(doomed, w)
		}
	}
	s.list = kept
	for _, w := range doomed {
		w.over()
		w.OnEnd(err)
	}
}
