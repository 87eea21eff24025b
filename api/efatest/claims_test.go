package efatest_test

import (
	"context"
	"errors"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// probe is a program's action before it posts a receive.
type probe uint8

const (
	none    probe = iota
	peek          // it looks what has come
	claim         // it takes that, if there is something
	discard       // or throws it away
)

// look peeks at or claims what the receive would get. True: it has got that.
func (n *node) look(ctx context.Context, rc *receive, from efa.Addr) (bool, error) {
	var opts []efa.OpOption
	if rc.Source != model.Any {
		opts = append(opts, efa.From(from))
	}
	match := efa.Match{Tag: rc.Tag, Ignore: rc.Ignore}
	rc.Post = n.run.tick()
	if rc.probe == peek {
		var m efa.Message
		var err error
		if rc.Tagged {
			m, err = n.ep.PeekTag(ctx, match, opts...)
		} else {
			m, err = n.ep.Peek(ctx, opts...)
		}
		if err != nil {
			return false, n.nothing(err)
		}
		n.run.stats["peek"]++
		if n.run.p.flavor == calm && m.From != efa.NoAddr {
			rc.peeked = n.got(&m, m.N)
		}
		return false, nil
	}
	var c *efa.Claimed
	var err error
	if rc.Tagged {
		c, err = n.ep.ClaimTag(ctx, match, opts...)
	} else {
		c, err = n.ep.Claim(ctx, opts...)
	}
	if err != nil {
		return false, n.nothing(err)
	}
	return true, n.use(ctx, rc, c)
}

// nothing reports whether an error is that there is no message.
func (n *node) nothing(err error) error {
	if errors.Is(err, efa.ErrNoMessage) || n.closed {
		n.run.stats["peek in vain"]++
		return nil
	}
	return err
}

// use receives what was claimed, or throws it away, perhaps after a while.
func (n *node) use(ctx context.Context, rc *receive, c *efa.Claimed) error {
	r := n.run
	r.stats["claim"]++
	if rc.Post%3 == 0 {
		if err := r.w.Sleep(time.Duration(rc.Post%50) * time.Microsecond); err != nil {
			return err
		}
	}
	got := n.got(&c.Message, c.Message.N)
	if rc.probe == claim || got.ID < 0 { // only its contents say which message it is
		in := n.incoming(rc)
		m, err := c.Recv(ctx, in.buf)
		n.received(in, &m, err)
		return nil
	}
	err := c.Discard(ctx)
	rc.Ended = r.tick()
	r.w.Logf("discarded %d B from %v: %v", c.Message.N, c.Message.Raw(), err)
	if err != nil {
		n.unreceived(&incoming{r: rc, began: r.w.Elapsed()}, err)
		return nil
	}
	r.stats["discard"]++
	n.discarded++
	rc.Got = got
	return nil
}
