package ope

import (
	"github.com/efactor/efactor/actors/match"
)

// Size is the length of the message.
func (r *Rxe) Size() uint64 { return r.m.Total }

// IsHere reports whether all of the message came in its first packets, and fits into n bytes.
func (r *Rxe) IsHere(n int) bool { return r.stored == r.m.Total && r.m.Total <= uint64(n) }

// Fresh reports whether the message has come just now, and nothing keeps it yet.
func (r *Rxe) Fresh() bool { return r.unkept }

// Key is what the message is matched by.
func (r *Rxe) Key() (match.Kind, uint64, match.Source) {
	return match.KindOf(r.says.Tagged), r.says.Tag, match.Source(r.link.Handle)
}

// Hand gives a receive with the flag Sized the outcome that its message was claimed, or that it is
// recalled.
func (p *Pools) Hand(o *Order, res *Result) {
	drop(p.env.Trail, o) // the claimed message is received by a request of its own
	o.Req.Sink.Done(&o.Req, res)
	p.Orders.Put(o)
}
