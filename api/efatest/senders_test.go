package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest/internal/model"
)

// lap is how long a program sleeps that cannot go on for want of something that
// has no signal.
const lap = 5 * time.Microsecond

// outgoing is a send in progress: the token of its completion.
type outgoing struct {
	m     *message
	buf   []byte
	id    efa.OpID
	op    *efa.Op
	began time.Duration
	ended bool
}

// sendAll is the program that sends a node's messages, in order.
func (n *node) sendAll(ctx context.Context, list []*message) error {
	r := n.run
	defer func() { r.sending-- }()
	var ops []*outgoing
	for _, m := range list {
		if n.closed {
			break
		}
		if n.forgets(m.To) {
			continue
		}
		r.strike()
		if m.pause > 0 {
			if err := r.w.Sleep(m.pause); err != nil {
				return err
			}
		}
		o, err := n.send(ctx, m)
		if err != nil {
			return fmt.Errorf("%v: %w", &m.Msg, err)
		}
		if o != nil && o.op != nil {
			ops = append(ops, o)
		}
	}
	for n.sendsOut > 0 {
		if err := n.reapSends(ctx); err != nil {
			return err
		}
	}
	for _, o := range ops {
		o.began = r.w.Elapsed() // nobody looked before
		c, err := o.op.Wait(ctx)
		if err != nil && !o.ended && c.Kind == 0 {
			return fmt.Errorf("wait for %v: %w", &o.m.Msg, err)
		}
		n.sent(o, err)
	}
	return n.settle()
}

// settle waits until the counter has all sends, so the injected ones too.
func (n *node) settle() error {
	for {
		ok, failed := n.sends.Value()
		switch {
		case ok+failed > n.submitted+n.unsure:
			return fmt.Errorf("%d outcomes of %d sends", ok+failed, n.submitted+n.unsure)
		case ok+failed >= n.submitted:
			return nil
		}
		if err := n.run.w.Sleep(lap); err != nil {
			return err
		}
	}
}

func (n *node) send(ctx context.Context, m *message) (*outgoing, error) {
	r := n.run
	if err := n.await(m.To); err != nil {
		return nil, err
	}
	buf := r.pool.get(r, m.Len)
	model.Fill(buf, m.ID)
	o := &outgoing{m: m, buf: buf, began: r.w.Elapsed()}
	r.sent++
	req := &efa.SendReq{
		To: n.handle(m.To), Buf: buf, Tagged: m.Tagged, Tag: m.Tag, HasData: m.HasData, Data: m.Data, Token: o,
	}
	if m.pieces > 1 {
		req.Buf, req.Bufs = nil, pieces(buf, m.pieces)
	}
	r.w.Logf("send %d to %d, %d B, style %d", m.ID, m.To, m.Len, m.style)
	switch m.style {
	case posted:
		return o, n.post(ctx, o, req)
	case started:
		return o, n.start(ctx, o, req)
	case injected:
		n.submitted++
		m.Order, m.Sure = r.tick(), !r.died(m.From, m.To)
		err := n.sendNow(ctx, m, buf, efa.Inject)
		r.pool.put(buf)
		r.stats["inject"]++
		if err != nil {
			n.submitted--
			m.Sure = false
			return nil, n.excuse(o, err)
		}
		return nil, nil
	default:
		return nil, n.sendBlocking(ctx, o)
	}
}

func (n *node) sendBlocking(ctx context.Context, o *outgoing) error {
	m := o.m
	if m.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = n.run.w.WithTimeout(ctx, m.timeout)
		defer cancel()
	}
	m.Order = n.run.tick()
	n.unsure++ // until it returns; another program may look at the counter before
	err := n.sendNow(ctx, m, o.buf)
	if op := new(efa.OpError); err == nil || errors.As(err, &op) {
		n.unsure--
		n.submitted++
	}
	n.sent(o, err)
	return nil
}

func (n *node) sendNow(ctx context.Context, m *message, buf []byte, opts ...efa.OpOption) error {
	if m.HasData {
		opts = append(opts, efa.Data(m.Data))
	}
	if m.Tagged {
		return n.ep.SendTag(ctx, n.handle(m.To), m.Tag, buf, opts...)
	}
	return n.ep.Send(ctx, n.handle(m.To), buf, opts...)
}

// again makes room after ErrAgain.
func (n *node) again(ctx context.Context) error {
	n.run.stats["again"]++
	if n.sendsOut > 0 {
		return n.reapSends(ctx)
	}
	return n.run.w.Sleep(lap)
}

func (n *node) post(ctx context.Context, o *outgoing, req *efa.SendReq) error {
	for {
		o.m.Order = n.run.tick()
		id, err := n.ep.Post(req)
		if errors.Is(err, efa.ErrAgain) {
			if err := errors.Join(n.again(ctx), n.await(o.m.To)); err != nil {
				return err
			}
			req.To = n.handle(o.m.To)
			continue
		}
		if err != nil {
			n.run.pool.put(o.buf)
			return n.excuse(o, err)
		}
		o.id = id
		n.sendsOut++
		n.submitted++
		n.cancelLater(o)
		return nil
	}
}

func (n *node) start(ctx context.Context, o *outgoing, req *efa.SendReq) error {
	for {
		o.m.Order = n.run.tick()
		op, err := n.ep.Start(req)
		if errors.Is(err, efa.ErrAgain) {
			if err := errors.Join(n.again(ctx), n.await(o.m.To)); err != nil {
				return err
			}
			req.To = n.handle(o.m.To)
			continue
		}
		if err != nil {
			n.run.pool.put(o.buf)
			return n.excuse(o, err)
		}
		o.op = op
		n.submitted++
		n.cancelLater(o)
		return nil
	}
}

// cancelLater has a program of its own cancel the send after a while.
func (n *node) cancelLater(o *outgoing) {
	if o.m.timeout == 0 {
		return
	}
	n.run.w.Go(fmt.Sprintf("cancel send %d", o.m.ID), func(context.Context) error {
		if err := n.run.w.Sleep(o.m.timeout); err != nil {
			return err
		}
		switch {
		case n.closed:
			return nil
		case o.op != nil:
			o.op.Cancel()
			return nil
		default:
			return n.ep.Cancel(o.id)
		}
	})
}

// reapSends waits for outcomes of posted sends.
func (n *node) reapSends(ctx context.Context) error {
	var cs [16]efa.Completion
	looked := n.run.w.Elapsed()
	k, err := n.sq.Read(ctx, cs[:])
	if err != nil {
		return fmt.Errorf("read the send queue, %d to come: %w", n.sendsOut, err)
	}
	for _, c := range cs[:k] {
		o, ok := c.Token.(*outgoing)
		if !ok { // an injected message's failure
			if c.Err == nil || (!n.anyDoomed() && n.removed == nil) {
				n.run.fail("a completion of nothing: %+v", c)
			}
			continue
		}
		if c.ID != o.id {
			n.run.fail("%v is operation %d, its completion says %d", &o.m.Msg, o.id, c.ID)
		}
		n.sendsOut--
		o.began = max(o.began, looked)
		n.sent(o, c.Err)
	}
	return nil
}

func (n *node) anyDoomed() bool {
	for _, x := range n.run.cast {
		if x.doomed {
			return true
		}
	}
	return false
}

// sent takes the outcome of a send.
func (n *node) sent(o *outgoing, err error) {
	r, m := n.run, o.m
	if o.ended {
		r.fail("%v ended twice", &m.Msg)
		return
	}
	o.ended = true
	r.w.Logf("sent %d: %v", m.ID, err)
	r.pool.put(o.buf)
	m.Sure = err == nil && !r.died(m.From, m.To)
	switch {
	case err == nil:
		r.stats["send ok"]++
	case m.timeout > 0 && errors.Is(err, efa.ErrCanceled):
		r.stats["send canceled"]++
	default:
		if err := n.excuse(o, err); err != nil {
			r.fail("%v: %w", &m.Msg, err)
		}
		r.stats["send failed"]++
	}
	n.inTime(o.began, m.To)
}

// excuse tells whether an error is the fault of a death.
func (n *node) excuse(o *outgoing, err error) error {
	if n.wasRemoved(o.m.To, err) {
		return nil
	}
	if n.run.died(o.m.From, o.m.To) && (errors.Is(err, efa.ErrPeerFailed) || errors.Is(err, efa.ErrClosed) || n.closed) {
		return nil
	}
	return err
}

// inTime checks that what a death ended did not wait for longer than promised.
// A dead device that reads buffers late never says that it has let go of them, so
// its own operations end with Close.
func (n *node) inTime(began time.Duration, other int) {
	for _, x := range []*node{n, n.run.cast[other]} {
		if x.diedAt == 0 || (x == n && n.run.p.fabric.CopyLate) {
			continue
		}
		if late := n.run.w.Elapsed() - max(began, x.diedAt); late > bound+peerTimeout {
			n.run.fail("%d noticed only after %v that %d had died", n.id, late, x.id)
		}
	}
}
