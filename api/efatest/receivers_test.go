package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// incoming is a posted receive in progress.
type incoming struct {
	r     *receive
	mem   *buffer
	buf   []byte // of mem
	id    efa.OpID
	many  *multi // a buffer for many
	ended bool
	began time.Duration
}

// recvAll is the program that receives what is for a node.
func (n *node) recvAll(ctx context.Context) error {
	if n.plan.late > 0 {
		if err := n.run.w.Sleep(n.plan.late); err != nil {
			return err
		}
	}
	for range n.plan.bystand {
		if err := n.bystand(ctx); err != nil {
			return err
		}
	}
	for _, rc := range n.plan.recvs {
		if n.closed {
			break
		}
		if rc.pause > 0 {
			if err := n.run.w.Sleep(rc.pause); err != nil {
				return err
			}
		}
		if err := n.recvOne(ctx, rc); err != nil {
			return fmt.Errorf("%v: %w", &rc.Recv, err)
		}
	}
	if n.plan.loose {
		return n.mopUp(ctx)
	}
	for n.recvsOut > 0 {
		if err := n.reapRecvs(ctx); err != nil {
			return err
		}
	}
	ok, failed := n.recvs.Value()
	if want := len(n.plan.recvs) + n.plan.bystand - n.discarded; ok+failed != uint64(want) {
		return fmt.Errorf("%d outcomes of %d receives", ok+failed, want)
	}
	return n.attend(ctx)
}

// bystand waits in vain for a message that is never sent.
func (n *node) bystand(ctx context.Context) error {
	ctx, cancel := n.run.w.WithTimeout(ctx, 20*time.Microsecond)
	defer cancel()
	buf := n.run.pool.get(n.run, 100)
	_, err := n.ep.RecvTag(ctx, efa.Match{Tag: tagNone, Ignore: tagMask}, buf)
	if !errors.Is(err, efa.ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("a receive of what nobody sends: %w", err)
	}
	n.run.pool.put(buf)
	return nil
}

func (n *node) recvOne(ctx context.Context, rc *receive) error {
	n.posted = append(n.posted, rc)
	if rc.Source != model.Any && n.forgets(rc.Source) {
		rc.Source = model.Any
	}
	if rc.probe != none {
		from, err := n.source(rc)
		if err != nil {
			return err
		}
		if found, err := n.look(ctx, rc, from); found || err != nil {
			return err
		}
	}
	from, err := n.source(rc) // which may be another one by now
	if err != nil {
		return err
	}
	in := n.incoming(rc)
	if n.plan.recv == blocking {
		return n.recvBlocking(ctx, in, from)
	}
	return n.postRecv(ctx, in, from)
}

// source is the handle of the only sender that a receive takes messages of.
func (n *node) source(rc *receive) (efa.Addr, error) {
	if rc.Source == model.Any {
		return 0, nil
	}
	if err := n.await(rc.Source); err != nil {
		return 0, err
	}
	return n.handle(rc.Source), nil
}

// incoming gets a buffer for a receive.
func (n *node) incoming(rc *receive) *incoming {
	in := &incoming{r: rc, mem: n.take(rc.size, rc.mem), began: n.run.w.Elapsed()}
	in.buf = in.mem.b
	if rc.mem == doomed {
		n.closeLater(in.mem, soon(rc.size))
	}
	return in
}

func (n *node) recvBlocking(ctx context.Context, in *incoming, from efa.Addr) error {
	rc := in.r
	var opts []efa.OpOption
	if rc.Source != model.Any {
		opts = append(opts, efa.From(from))
	}
	rc.Post = n.run.tick()
	var m efa.Message
	var err error
	if rc.Tagged {
		m, err = n.ep.RecvTag(ctx, efa.Match{Tag: rc.Tag, Ignore: rc.Ignore}, in.buf, opts...)
	} else {
		m, err = n.ep.Recv(ctx, in.buf, opts...)
	}
	n.received(in, &m, err)
	return nil
}

func (n *node) postRecv(ctx context.Context, in *incoming, from efa.Addr) error {
	rc, r := in.r, n.run
	n.takes = append(n.takes, in)
	req := &efa.RecvReq{
		From: from, Directed: rc.Source != model.Any, Buf: in.buf,
		Tagged: rc.Tagged, Tag: rc.Tag, Ignore: rc.Ignore, Token: uint64(len(n.takes)),
	}
	if rc.pieces > 1 {
		req.Buf, req.Bufs = nil, pieces(in.buf, rc.pieces)
	}
	if in.many != nil {
		multiReq(req, in.many.minLeft)
	}
	for {
		rc.Post = r.tick()
		id, err := n.ep.PostRecv(req)
		switch {
		case errors.Is(err, efa.ErrAgain):
			r.stats["again"]++
			if n.recvsOut > 0 {
				err = n.reapRecvs(ctx)
			} else if err = nil; !n.glance() {
				err = r.w.Sleep(lap)
			}
			if rc.Source != model.Any {
				err = errors.Join(err, n.await(rc.Source))
				req.From = n.handle(rc.Source)
			}
			if err != nil {
				return err
			}
			continue
		case err != nil:
			n.received(in, &efa.Message{}, err)
			return nil
		}
		r.w.Logf("receive %d posted, %d B", id, rc.size)
		in.id = id
		n.recvsOut++
		n.waiting = append(n.waiting, in)
		if rc.timeout > 0 {
			r.w.Go(fmt.Sprintf("cancel receive %d of %d", id, n.id), func(context.Context) error {
				if err := r.w.Sleep(rc.timeout); err != nil {
					return err
				}
				return n.cancelRecv(in)
			})
		}
		return nil
	}
}

func (n *node) cancelRecv(in *incoming) error {
	if in.ended || n.closed {
		return nil
	}
	in.r.Canceled = n.run.tick()
	return n.ep.Cancel(in.id)
}

// reapRecvs waits for outcomes of posted receives.
func (n *node) reapRecvs(ctx context.Context) error {
	var cs [16]efa.Completion
	looked := n.run.w.Elapsed()
	k, err := n.rq.Read(ctx, cs[:])
	if err != nil {
		return fmt.Errorf("read the receive queue, %d to come: %w", n.recvsOut, err)
	}
	n.reap(cs[:k], looked)
	return nil
}

// glance takes the available completions. Those of peers' writes take room in the
// queue, too.
func (n *node) glance() bool {
	var cs [16]efa.Completion
	k := n.rq.TryRead(cs[:])
	n.reap(cs[:k], n.run.w.Elapsed())
	return k > 0
}

func (n *node) reap(cs []efa.Completion, looked time.Duration) {
	for i := range cs {
		c := &cs[i]
		if c.Kind == efa.RemoteWrite {
			n.hear(c)
			continue
		}
		in := n.takes[c.Token-1]
		if c.Err == nil {
			n.run.stats["received."+c.Protocol.String()]++
		}
		if c.ID != in.id {
			n.run.fail("receive %d has the completion of %d", in.id, c.ID)
		}
		in.began = max(in.began, looked)
		if in.many != nil {
			if c.Kind == efa.Released {
				n.release(in, c)
			} else {
				n.place(in, c)
				continue
			}
		} else {
			n.recvsOut--
			n.received(in, &c.Message, c.Err)
		}
	}
}
