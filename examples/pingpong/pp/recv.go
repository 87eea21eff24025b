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
	case g.next[0] != nil:
		var c efa.Completion
		c, err = g.next[0].Wait(ctx)
		m, g.next[0], g.next[1] = c.Message, g.next[1], nil
		g.rx, g.rx2 = g.rx2, g.rx
		if err == nil {
			return g.rx2[:m.N], nil
		}
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

// expect posts the receives of the next two messages where nobody keeps one that comes earlier:
// the last message follows the one before it at once.
func (g *game) expect() error {
	if !g.cfg.Direct {
		return nil
	}
	for i, buf := range [][]byte{g.rx, g.rx2} {
		if g.next[i] != nil {
			continue
		}
		var err error
		if g.next[i], err = g.ep.Start(&efa.RecvReq{Buf: buf}); err != nil {
			return err
		}
	}
	return nil
}
