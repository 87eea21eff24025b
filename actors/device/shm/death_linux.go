package shm

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
)

// acquaintance is a queue pair that sent to us or to which we sent.
type acquaintance struct {
	qkey uint32
	gid  device.GID
	left bool // it was found to be closed in order
}

// voice is a sender whose packets we have taken.
type voice struct {
	who ident
	gid device.GID
	ah  device.AH // of gid; UnknownAH: there is none
}

// news carries the idents of dead queue pairs from the watcher to a port's shard.
// An ident is in it once, however often it is put.
type news struct {
	some atomic.Bool
	mu   sync.Mutex
	dead map[ident]struct{}
}

func (n *news) put(id ident) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead == nil {
		n.dead = make(map[ident]struct{})
	}
	n.dead[id] = struct{}{}
	n.some.Store(true)
}

// take empties it.
func (n *news) take() (dead map[ident]struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dead, n.dead = n.dead, nil
	n.some.Store(false)
	return dead
}

// deadPair is a dead queue pair whose packets and claims are still in our ring.
type deadPair struct {
	id     ident
	entry  int    // in our sender table, or -1
	end    uint64 // it has nothing at or after this position
	report bool
	acquaintance
}

// hear notes the sender of a first packet.
func (p *port) hear(entry int, who ident) {
	a, ok := p.known[who]
	if !ok {
		a = acquaintance{qkey: p.rx.senders[entry].qkey.Load(), gid: p.rx.origins[entry].load()}
		p.known[who] = a
	}
	ah, ok := p.handles[a.gid]
	if !ok {
		ah = device.UnknownAH
	}
	p.heard[entry] = voice{who, a.gid, ah}
	if p.voices++; p.voices > 1 {
		p.rx.patience = patienceMany
	}
}

// nameVoices notes that the senders with gid have the address handle ah now.
func (p *port) nameVoices(gid *device.GID, ah device.AH) {
	left := p.voices // they are at the front, as a rule
	for i := range p.heard {
		if left <= 0 {
			break
		}
		v := &p.heard[i]
		if v.who == 0 {
			continue
		}
		if left--; v.gid == *gid {
			v.ah = ah
		}
	}
}

// takeNews starts to bury the queue pairs that the watcher reported dead. The news are not
// locked meanwhile: to disconnect may find memory that was cut, which is news as well.
func (p *port) takeNews() {
	for id := range p.news.take() {
		if slices.ContainsFunc(p.dying, func(f deadPair) bool { return f.id == id }) {
			continue // the watcher has met its entry again
		}
		if l := p.links.get(id.qpn()); l != nil && l.id == id {
			p.disconnect(l)
		}
		f := deadPair{id: id, entry: p.entryOf(id), end: p.rx.end}
		a, ok := p.known[id]
		f.report, f.acquaintance = ok, a
		f.left = a.left || f.entry >= 0 && p.rx.senders[f.entry].flags.Load()&bye != 0
		delete(p.known, id)
		if f.report || f.entry >= 0 {
			p.dying = append(p.dying, f)
		}
	}
}

// entryOf finds the entry of id in our sender table.
func (p *port) entryOf(id ident) int {
	for i := range p.rx.senders {
		if ident(p.rx.senders[i].who.Load()) == id {
			return i
		}
	}
	return -1
}

// buryDead finishes with the dead queue pairs whose packets have all been taken:
// the slots that they claimed are posted again, their entries are free, and OpGone
// follows their last packet.
func (p *port) buryDead(c []device.Completion) int {
	n := 0
	var pk packet
	for n < len(c) && p.rx.nextAside(&pk) {
		n += p.accept(&pk, &c[n])
	}
	for len(p.dying) > 0 && n < len(c) {
		f := p.dying[0]
		if !p.rx.drained(f.end) {
			break
		}
		if f.entry >= 0 && ident(p.rx.senders[f.entry].who.Load()) == f.id {
			for p.rx.reclaim(f.entry, &pk) {
				p.reclaimed++
				p.repost(pk.slot)
			}
			if p.heard[f.entry].who != 0 {
				p.heard[f.entry] = voice{}
				p.voices--
			}
			p.rx.senders[f.entry].flags.Store(0)
			p.rx.senders[f.entry].who.CompareAndSwap(uint64(f.id), 0)
		}
		p.dying = p.dying[1:]
		if f.report {
			c[n] = device.Completion{
				Op: device.OpGone, SrcQPN: f.id.qpn(), SrcGID: f.gid, QKey: f.qkey, Left: f.left,
			}
			n++
		}
	}
	return n
}
