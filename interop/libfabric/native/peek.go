package native

import (
	"context"
	"errors"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// peek finds waiting tagged messages, claims them, receives and discards them.
func (n *Node) peek(l *life, op party.Op) (*party.Pending, error) {
	p := party.NewPending(0, op)
	l.ended.Go(func() {
		out, err := n.look(l, op, p)
		p.Resolve(out, err)
	})
	return p, nil
}

func (n *Node) look(l *life, op party.Op, p *party.Pending) (out party.Outcome, err error) {
	ctx := context.Background()
	m := efa.Match{Tag: op.Tag, Ignore: op.Ignore}
	from := efa.From(efa.AnyAddr)
	if op.Directed {
		from = efa.From(efa.Addr(op.Peer))
	}
	switch op.Kind {
	case party.Claim, party.Discard:
		c, err := l.ep.ClaimTag(ctx, m, from)
		if err != nil {
			return failed(party.Outcome{}, err), nil
		}
		p.Own = c
		if op.Kind == party.Discard {
			return failed(message(c.Message, nil), c.Discard(ctx)), nil
		}
		return message(c.Message, nil), nil
	case party.Take:
		c, ok := op.Of.Own.(*efa.Claimed)
		if !ok {
			return out, errors.New("native: nothing was claimed")
		}
		b, err := n.buffer(op, op.Size)
		if err != nil {
			return out, err
		}
		msg, err := c.Recv(ctx, b.Pieces[0])
		return failed(message(msg, b.Buffer), err), b.release()
	default:
		msg, err := l.ep.PeekTag(ctx, m, from)
		return failed(message(msg, nil), err), nil
	}
}

func message(m efa.Message, b *party.Buffer) party.Outcome {
	return outcome(efa.Completion{Message: m}, b)
}
