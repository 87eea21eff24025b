package ope

import (
	"github.com/efactor/efactor/actors/match"
)

// waiting is an unexpected message's entry in the matcher. Few messages need one,
// so that they are kept apart from the rxes.
type waiting struct {
	msg  match.Msg
	next *waiting
}

// List returns the rxe's entry for the matcher, made for the endpoint to add.
func (r *incoming) List() *match.Msg {
	w := r.pools.waiting
	if w == nil {
		w = new(waiting)
	}
	r.pools.waiting, w.next = w.next, nil
	w.msg.Kind = match.KindOf(r.says.Tagged)
	w.msg.Tag, w.msg.Source, w.msg.Owner = r.says.Tag, match.Source(r.link.Handle), int32(r.id&indexMask)
	r.wait = w
	return &w.msg
}

// Listed returns the rxe's entry in the matcher, nil if it has none.
func (r *incoming) Listed() *match.Msg {
	if r.wait == nil {
		return nil
	}
	return &r.wait.msg
}

// unlisted gives the entry back; the matcher has it no more.
func (r *incoming) unlisted() {
	if w := r.wait; w != nil {
		r.wait = nil
		w.next, r.pools.waiting = r.pools.waiting, w
	}
}
