package efanet

import (
	"errors"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// A side that was stopped, or cut off, for so long that the other took it for dead has connections
// that the other has forgotten, and may only wait for bytes: nothing that it sends would tell it.
// So each side names its connections with the other by an epoch, a number that it gives once for
// as long as it knows the other, and states in OPEN and ACCEPT. A side with connections asks now
// and then by PING whether the other is still in the epoch that they are of; if it is not, the
// answer is GONE.

// askEvery is how often a side asks that has connections, as TCP's keepalive in package net.
var askEvery = 15 * time.Second

var errGone = errors.New("efanet: the other side has taken this one for dead meanwhile, and forgotten the connection")

// nextEpoch is a number between 1 and maxValue.
func (h *hub) nextEpoch() uint64 { return h.epochs.Add(1)%maxValue + 1 }

// begun counts a connection among those that are open. If the other side has begun a new epoch
// meanwhile, it has forgotten all others.
func (h *hub) begun(c *Conn, epoch uint64) {
	h.mu.Lock()
	p := c.peer
	var gone []*Conn
	if p.theirs != epoch {
		gone = p.forget()
	}
	p.theirs = epoch
	p.on[c] = struct{}{}
	h.mu.Unlock()
	loseAll(gone)
}

// forget empties on. The hub is locked.
func (p *peer) forget() []*Conn {
	var gone []*Conn
	for c := range p.on {
		gone = append(gone, c)
	}
	clear(p.on)
	return gone
}

func loseAll(gone []*Conn) {
	for _, c := range gone {
		c.lose()
	}
}

// gone ends the connections of an epoch of the peer's; of an earlier one there are none.
func (h *hub) gone(p *peer, epoch uint64) {
	h.mu.Lock()
	var gone []*Conn
	if p.theirs == epoch {
		gone = p.forget()
	}
	h.mu.Unlock()
	loseAll(gone)
}

// watch learns of the end of a peer, also where nobody reads: an injected frame does not tell.
// And it asks the peer whether it still knows of the connections.
func (h *hub) watch(p *peer) error {
	req := efa.RecvReq{From: p.at, Directed: true, Tagged: true, Tag: laneWatch.tag(0)}
	op, err := h.start(&req)
	if err != nil {
		return err
	}
	h.served.Go(func() {
		again := clock.NewTimer(h.askEvery)
		defer again.Stop()
		var asked *efa.Op
		for err == nil {
			select {
			case <-op.Done():
				if err = h.heard(p, op); err == nil {
					op, err = h.start(&req)
				}
			case <-again.C:
				again.Reset(h.askEvery)
				asked = h.ask(p, asked)
			}
		}
		p.failed.Store(&err)
	})
	return nil
}

// heard takes what has come on laneWatch: GONE, or the error that is the peer's end.
func (h *hub) heard(p *peer, op *efa.Op) error {
	c, err := op.Wait(h.ctx)
	if err != nil {
		return err
	}
	f, err := parse(laneWatch, &c.Message)
	if err != nil {
		return err
	}
	h.gone(p, f.value)
	return nil
}

// ask sends a PING, unless there is nothing to ask or the one before has not left yet.
func (h *hub) ask(p *peer, before *efa.Op) *efa.Op {
	if before != nil {
		select {
		case <-before.Done():
		default:
			return before
		}
	}
	h.mu.Lock()
	q, conns := ping{p.theirs, h.ep.Address()}, len(p.on)
	h.mu.Unlock()
	if conns == 0 {
		return nil
	}
	op, err := h.ep.Start(&efa.SendReq{To: p.at, Tagged: true, Tag: laneOpen.tag(0), Buf: q.marshal(), HasData: true, Data: head(kindPing, 0)})
	if err != nil {
		return nil // the next time will do
	}
	return op
}

// pinged answers a PING, if its sender is to learn something.
func (h *hub) pinged(m *efa.Message, body []byte) {
	var q ping
	if q.unmarshal(body) != nil || !isFrom(m, q.from) {
		return
	}
	at, err := h.ep.AddressVector().Insert(q.from)
	if err != nil {
		return // it cannot be reached
	}
	h.mu.Lock()
	p := h.peers[at]
	known := p != nil && p.err() == nil && p.mine == q.epoch
	h.mu.Unlock()
	if !known {
		// Without waiting, since others want answers, too. If it gets lost, the next PING has one.
		_, _ = h.ep.Start(&efa.SendReq{To: at, Tagged: true, Tag: laneWatch.tag(0), Inject: true, HasData: true, Data: head(kindGone, q.epoch)})
	}
}
