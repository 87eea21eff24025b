package efatest_test

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// multi is what a receiver notes of its buffer for many.
type multi struct {
	minLeft int
	parts   []part // in the order of their outcomes
}

// part is a message in the buffer.
type part struct {
	at, n  int
	failed bool // nothing is known of its length
	got    *model.Got
}

// place takes the completion of one message in a buffer for many, which counts as a receive
// posted with the buffer.
func (n *node) place(in *incoming, c *efa.Completion) {
	r, x := n.run, in.many
	if in.ended {
		r.fail("%v: a message after the buffer's release", &in.r.Recv)
		return
	}
	if c.Kind != efa.Received || c.Offset%efa.MultiRecvAlign != 0 || c.Offset > len(in.buf) || c.N > len(in.buf)-c.Offset {
		r.fail("%v: %v of %d B at %d of %d", &in.r.Recv, c.Kind, c.N, c.Offset, len(in.buf))
		return
	}
	rc := &receive{pieces: 1}
	rc.Recv = in.r.Recv
	rc.Many, rc.Canceled, rc.Ended = false, 0, r.tick()
	n.posted = append(n.posted, rc)
	one := &incoming{r: rc, buf: in.buf[c.Offset:][:c.N], began: in.began}
	r.w.Logf("received %d B at %d of buffer %d from %v tag %#x: %v", c.N, c.Offset, in.id, c.Raw(), c.Tag, c.Err)
	lost, err := 0, c.Err
	if cut := new(efa.OpError); errors.Is(err, efa.ErrTruncated) && errors.As(err, &cut) {
		r.stats["multi truncated"]++
		if lost, err = cut.Lost, nil; c.Offset != 0 || c.N != len(in.buf) || lost == 0 {
			r.fail("%v: cut to %d B at %d of %d", &rc.Recv, c.N, c.Offset, len(in.buf))
		}
	}
	if err != nil {
		n.unreceived(one, err)
	} else {
		r.stats["multi ok"]++
		n.verify(one, &c.Message, lost)
	}
	x.parts = append(x.parts, part{at: c.Offset, n: c.N, failed: err != nil, got: rc.Got})
}

// release takes the outcome of a buffer for many, and judges what is in it: no message lies in
// another, nothing lies between them, and those of a sender are in their order
// unless the endpoint keeps none.
func (n *node) release(in *incoming, c *efa.Completion) {
	r, rc := n.run, in.r
	if in.ended {
		r.fail("%v was released twice", &rc.Recv)
		return
	}
	in.ended = true
	rc.Ended = r.tick()
	n.recvsOut--
	r.w.Logf("buffer %d released, %d of %d B used: %v", in.id, c.N, len(in.buf), c.Err)
	defer n.give(in.mem)
	parts := in.many.parts
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	end, known := 0, true
	last := map[int]int{} // by sender, the order of its message before
	for _, p := range parts {
		if p.at < end {
			r.fail("%v: a message at %d, one before it ends at %d", &rc.Recv, p.at, end)
		} else if known && !isPoison(in.buf[end:p.at]) {
			r.fail("%v: something was written between %d and %d", &rc.Recv, end, p.at)
		}
		end, known = p.at+p.n, !p.failed
		if p.got == nil || p.got.ID < 0 || p.n == 0 {
			continue
		}
		if order := r.msgs[p.got.ID].Order; order < last[p.got.From] && !n.plan.cfg.Unordered {
			r.fail("%v: message %d from %d lies after a later one", &rc.Recv, p.got.ID, p.got.From)
		} else {
			last[p.got.From] = order
		}
	}
	if end > c.N || known && !isPoison(in.buf[end:]) {
		r.fail("%v: %d B are used, the last message ends at %d", &rc.Recv, c.N, end)
	}
	if c.Err != nil {
		n.unreceived(in, c.Err)
		return
	}
	r.stats["multi released"]++
	rc.Canceled = 0 // too late: messages may have passed it over
}

// nextRest is mopUp by Next, of one kind until there is nothing for a while, then of the other.
func (n *node) nextRest(ctx context.Context) error {
	r := n.run
	tagged := true
	for quiet := 0; quiet < 6 && !n.closed && ctx.Err() == nil; {
		n.glance() // what was posted before must not look as if it waited
		rc := &receive{pieces: 1}
		rc.Tagged, rc.Ignore, rc.Source, rc.Many = tagged, ^uint64(0), model.Any, true
		n.posted = append(n.posted, rc)
		rc.Post = r.tick()
		began := r.w.Elapsed()
		d, err := n.nextOne(ctx, rc.Tagged)
		if errors.Is(err, context.DeadlineExceeded) {
			rc.Canceled = r.tick()
			r.stats["next in vain"]++
			if tagged = !tagged; r.sending == 0 {
				quiet++
			}
			continue
		}
		rc.Ended = r.tick()
		in := &incoming{r: rc, buf: d.Body, began: began}
		var long *efa.TooLongError
		switch {
		case errors.As(err, &long):
			r.stats["next too long"]++
			in.buf = make([]byte, long.Claimed.Message.N)
			m, err := long.Claimed.Recv(ctx, in.buf)
			n.received1(in, &m, err)
		case err == nil:
			n.received1(in, &d.Message, nil)
			d.Release()
		default:
			n.received1(in, &efa.Message{}, err)
			if n.closed || ctx.Err() != nil {
				return nil
			}
		}
		quiet = 0
	}
	return nil
}

func (n *node) nextOne(ctx context.Context, tagged bool) (efa.Delivery, error) {
	ctx, cancel := n.run.w.WithTimeout(ctx, patience)
	defer cancel()
	if tagged {
		return n.ep.NextTag(ctx, efa.AnyTag)
	}
	return n.ep.Next(ctx)
}

// received1 takes a message, or the error of one, that came by Next.
func (n *node) received1(in *incoming, m *efa.Message, err error) {
	if err != nil {
		in.r.Many = false // this one has thrown its message away
		n.unreceived(in, err)
		return
	}
	n.run.stats["next ok"]++
	n.verify(in, m, 0)
}
