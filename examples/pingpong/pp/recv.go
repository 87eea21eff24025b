package pp

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// recv receives one message of the given size.
func (g *game) recv(ctx context.Context, size int) error {
	p, err := g.recvAny(ctx)
	switch {
	case err != nil:
		return g.prefixed(err, size)
	case len(p) != size:
		return g.wrongLength(p, size)
	case g.cfg.Check:
		err = g.in.Check(p)
	}
	return errors.Join(err, g.expect())
}

func (g *game) recvAny(ctx context.Context) ([]byte, error) {
	var m efa.Message
	var err error
	switch {
	case g.next != nil:
		var c efa.Completion
		c, err = g.next.Wait(ctx)
		m, g.next = c.Message, nil
	case g.cfg.Tagged:
		m, err = g.ep.RecvTag(ctx, efa.Match{Tag: Tag}, g.rx)
	default:
		m, err = g.ep.Recv(ctx, g.rx)
	}
	if errors.Is(err, efa.ErrTruncated) {
		return nil, fmt.Errorf("got a message longer than %d bytes: start both sides with the same -S: %w", len(g.rx), err)
	}
	return g.rx[:m.N], err
}

// expect posts the receive for the next message where nobody keeps one that comes earlier.
func (g *game) expect() (err error) {
	if g.cfg.Direct {
		g.next, err = g.ep.Start(&efa.RecvReq{Buf: g.rx})
	}
	return err
}
