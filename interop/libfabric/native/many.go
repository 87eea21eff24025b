package native

import (
	"context"

	"github.com/efactor/efactor/api/efa"
)

// Many posts a buffer for many messages, and returns what the receive queue says from then on of
// receives; stop ends that.
func (n *Node) Many(r *efa.RecvReq) (<-chan efa.Completion, func() error, error) {
	l, err := n.open()
	if err != nil {
		return nil, nil, err
	}
	out := make(chan efa.Completion, cap(n.notices))
	l.many.Store(&out)
	r.Multi = true
	id, err := l.ep.PostRecv(r)
	return out, func() error { return l.ep.Cancel(id) }, err
}

// Next receives the next untagged message, or tagged one, whatever its size.
func (n *Node) Next(ctx context.Context, tagged bool) (efa.Delivery, error) {
	l, err := n.open()
	if err != nil {
		return efa.Delivery{}, err
	}
	if tagged {
		return l.ep.NextTag(ctx, efa.AnyTag)
	}
	return l.ep.Next(ctx)
}
