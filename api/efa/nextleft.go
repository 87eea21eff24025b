package efa

import (
	"slices"
)

// wanted is which messages a call of Next takes.
type wanted struct {
	Match
	tagged bool
	from   Addr
}

func (w *wanted) takes(m *Message) bool {
	return m.Tagged == w.tagged && (!w.tagged || (m.Tag^w.Tag)&^w.Ignore == 0) && (w.from == AnyAddr || w.from == m.From)
}

// leave keeps a message for another call, also for one that waits.
func (b *inbox) leave(t *taking) {
	b.mu.Lock()
	if b.lost(t) {
		b.mu.Unlock()
		return
	}
	b.left = append(b.left, t)
	b.kept.Add(1)
	b.mu.Unlock()
	round := b.round.Add(1)
	b.mem.wakeAll()
	if e := b.of; e.state.Load() != closed {
		e.control(func() { e.act.Load().Recall(round) })
	}
}

// find returns where in left the oldest message is that w takes, -1 if there is none. held: it has
// memory already.
func (b *inbox) find(w *wanted, held bool) int {
	return slices.IndexFunc(b.left, func(t *taking) bool { return w.takes(&t.msg) && (!held || t.lease != nil) })
}

// has reports whether resume would find a message.
func (b *inbox) has(w *wanted, held bool) bool {
	if b.kept.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.find(w, held) >= 0
}

// resume takes the oldest message of those that were left which w takes.
func (b *inbox) resume(w *wanted, held bool) *taking {
	if b.kept.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.find(w, held)
	if i < 0 {
		return nil
	}
	t := b.left[i]
	b.left = slices.Delete(b.left, i, i+1)
	b.kept.Add(-1)
	return t
}

// renew forgets what was left of the endpoint that has failed, but not messages that have arrived.
func (b *inbox) renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = slices.DeleteFunc(b.left, b.lost)
	b.kept.Store(int32(len(b.left)))
}

// lost reports whether a message went with the endpoint that had it, and gives its memory back.
func (b *inbox) lost(t *taking) bool {
	switch {
	case t.act == b.of.act.Load():
		return false
	case t.lease == nil:
		return true
	case !t.sig.IsSet() || t.err == nil:
		return false
	}
	t.lease.back()
	return true
}
