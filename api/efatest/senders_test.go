package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
	"github.com/efactor/efactor/wire"
)

// sendAll is the program that does a node's tasks, in order.
func (n *node) sendAll(ctx context.Context, list []task) error {
	r := n.run
	defer func() { r.sending-- }()
	for _, t := range list {
		if n.closed {
			break
		}
		pause, to := t.pause()
		if n.forgets(to) {
			continue
		}
		r.strike()
		r.closeStores()
		if pause > 0 {
			if err := r.w.Sleep(pause); err != nil {
				return err
			}
		}
		if err := n.await(to); err != nil {
			return err
		}
		var err error
		if t.m != nil {
			err = n.send(ctx, t.m)
		} else {
			err = n.reach(ctx, t.a)
		}
		if err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	r.strike() // the last task has begun
	return n.finishSends(ctx)
}

func (n *node) send(ctx context.Context, m *message) error {
	r := n.run
	buf := n.take(m.Len, m.mem)
	model.Fill(buf.b, m.ID)
	r.sent++
	d := &deed{
		what: &m.Msg, to: m.To, style: m.style, timeout: m.timeout, began: r.w.Elapsed(),
		ask:     func() { m.Order, m.after = r.tick(), n.behind(m.To, m.fence, efa.SendAfterWrite) },
		release: func() { n.give(buf) },
		outcome: func(_ *deed, err error) { n.sent(m, err) },
	}
	if m.mem == doomed {
		n.closeLater(buf, soon(m.ID))
	}
	r.w.Logf("send %d to %d, %d B, style %d", m.ID, m.To, m.Len, m.style)
	switch m.style {
	case posted, started:
		req := &efa.SendReq{
			To: n.handle(m.To), Buf: buf.b, Tagged: m.Tagged, Tag: m.Tag, HasData: m.HasData, Data: m.Data,
			Level: m.level, Fence: m.fence, Token: n.token(d),
		}
		if m.pieces > 1 {
			req.Buf, req.Bufs = nil, pieces(buf.b, m.pieces)
		}
		return n.post(ctx, d, req)
	case injected:
		n.inject(ctx, d, func(ctx context.Context) error { return n.sendNow(ctx, m, buf.b, efa.Inject, efa.Token(n.token(d))) })
	default:
		n.block(ctx, d, func(ctx context.Context) error { return n.sendNow(ctx, m, buf.b) })
	}
	return nil
}

func (n *node) sendNow(ctx context.Context, m *message, buf []byte, opts ...efa.OpOption) error {
	if m.HasData {
		opts = append(opts, efa.Data(m.Data))
	}
	if m.level > 0 {
		opts = append(opts, efa.Complete(m.level))
	}
	if m.fence {
		opts = append(opts, efa.Fence)
	}
	if m.Tagged {
		return n.ep.SendTag(ctx, n.handle(m.To), m.Tag, buf, opts...)
	}
	return n.ep.Send(ctx, n.handle(m.To), buf, opts...)
}

// sent takes the outcome of a message.
func (n *node) sent(m *message, err error) {
	r := n.run
	r.ended(messageName(m), err)
	m.Sure = err == nil && !r.died(m.From, m.To)
	switch {
	case err == nil:
		r.stats["send ok"]++
		return
	case m.timeout > 0 && errors.Is(err, efa.ErrCanceled), m.mem == doomed && errors.Is(err, efa.ErrCanceled):
		r.stats["send canceled"]++
		return
	case m.level >= efa.Delivered && errors.Is(err, efa.ErrNotSupported) &&
		!r.p.both(m.From, m.To, wire.FeatureDeliveryComplete):
		r.stats["send without DC"]++
	case r.p.broken && n.broke(err):
		r.stats["send broken"]++
	default:
		if err := n.excuse(m.To, err); err != nil {
			r.fail("%v: %w", &m.Msg, err)
		}
	}
	r.stats["send failed"]++
}

// broke reports whether an error follows from failed RDMA: the device's own error,
// or that of a peer whose device failed, or a timeout if it cannot report it. Or the device had no address handle.
func (n *node) broke(err error) bool {
	op := new(efa.OpError)
	return errors.As(err, &op) && op.Provider > 0 && op.Provider < 4096 ||
		errors.Is(err, efa.ErrPeerAborted) || errors.Is(err, efa.ErrTimedOut) || errors.Is(err, device.ErrNoMemory)
}

func (n *node) anyDoomed() bool {
	for _, x := range n.run.cast {
		if x.doomed {
			return true
		}
	}
	return false
}

// excuse reports whether an error of an operation with another node is the fault of a
// death.
func (n *node) excuse(to int, err error) error {
	if n.wasRemoved(to, err) {
		return nil
	}
	if n.run.died(n.id, to) && (n.closed || errors.Is(err, efa.ErrPeerFailed) || errors.Is(err, efa.ErrClosed) ||
		errors.Is(err, efa.ErrTimedOut)) {
		return nil
	}
	return err
}

// inTime checks that an operation that a death ended did not wait for longer than
// promised. A dead device that accesses buffers, late or by RDMA, never releases them,
// so its own operations end with Close.
func (n *node) inTime(began time.Duration, other int) {
	dev := n.run.p.at(n.plan.host).dev
	reaches := n.run.p.fabric.CopyLate || dev.Gathers || dev.RDMARead || dev.RDMAWrite
	for _, x := range []*node{n, n.run.cast[other]} {
		if x.diedAt == 0 || (x == n && reaches) {
			continue
		}
		if late := n.run.w.Elapsed() - max(began, x.diedAt); late > bound+peerTimeout {
			n.run.fail("%d noticed only after %v that %d had died", n.id, late, x.id)
		}
	}
}
