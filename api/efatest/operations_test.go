package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// lap is how long a program sleeps that cannot go on for want of something that
// has no signal.
const lap = 5 * time.Microsecond

// deed is an operation in progress that began at a node.
type deed struct {
	what    fmt.Stringer // for reports
	to      int
	style   style
	timeout time.Duration // after which it is canceled; 0: never
	ask     func()        // notes that it is asked for now
	release func()        // gives its buffer back
	outcome func(*deed, error)

	id       efa.OpID
	op       *efa.Op
	protocol efa.Protocol // 0: a call that does not report it
	began    time.Duration
	ended    bool
}

// token names a deed in its completion.
func (n *node) token(d *deed) uint64 {
	n.deeds = append(n.deeds, d)
	return uint64(len(n.deeds))
}

// end takes the outcome of a deed.
func (n *node) end(d *deed, err error) {
	if d.ended {
		n.run.fail("%v ended twice", d.what)
		return
	}
	d.ended = true
	n.run.w.Logf("%v: %v", d.what, err)
	if err == nil {
		n.run.stats["proto."+d.protocol.String()]++
	}
	d.outcome(d, err)
	d.release()
	n.inTime(d.began, d.to)
}

// block makes a blocking call of it.
func (n *node) block(ctx context.Context, d *deed, call func(context.Context) error) {
	if d.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = n.run.w.WithTimeout(ctx, d.timeout)
		defer cancel()
	}
	d.ask()
	n.unsure++ // until it returns; another program may look at the counter before
	err := call(ctx)
	if op := new(efa.OpError); err == nil || errors.As(err, &op) {
		n.unsure--
		n.submitted++
	}
	n.end(d, err)
}

// inject makes it an injected one, which has no outcome but a failure.
func (n *node) inject(ctx context.Context, d *deed, call func(context.Context) error) {
	n.submitted++
	d.ask()
	err := call(ctx)
	n.run.stats["inject"]++
	if err != nil {
		n.submitted--
	}
	d.ended = true
	d.outcome(d, err)
	d.release()
}

// post posts or starts it, as soon as there is room.
func (n *node) post(ctx context.Context, d *deed, req efa.Request) error {
	for {
		d.ask()
		var err error
		if d.style == posted {
			d.id, err = post(n.ep, req)
		} else {
			d.op, err = n.ep.Start(req)
		}
		switch {
		case errors.Is(err, efa.ErrAgain):
			if err := errors.Join(n.again(ctx), n.await(d.to)); err != nil {
				return err
			}
			aim(req, n.handle(d.to))
			continue
		case err != nil:
			n.end(d, err)
			return nil
		case d.style == posted:
			n.sendsOut++
		default:
			n.started = append(n.started, d)
		}
		n.submitted++
		n.cancelLater(d)
		return nil
	}
}

// post posts a request of any kind.
func post(ep *efa.Endpoint, r efa.Request) (efa.OpID, error) {
	switch r := r.(type) {
	case *efa.SendReq:
		return ep.PostSend(r)
	case *efa.WriteReq:
		return ep.PostWrite(r)
	case *efa.ReadReq:
		return ep.PostRead(r)
	default:
		return ep.PostAtomic(r.(*efa.AtomicReq))
	}
}

// aim makes a request go to another handle.
func aim(req efa.Request, to efa.Addr) {
	switch r := req.(type) {
	case *efa.SendReq:
		r.To = to
	case *efa.WriteReq:
		r.To = to
	case *efa.ReadReq:
		r.From = to
	case *efa.AtomicReq:
		r.To = to
	}
}

// again makes room after ErrAgain.
func (n *node) again(ctx context.Context) error {
	n.run.stats["again"]++
	if n.sendsOut > 0 {
		return n.reapSends(ctx)
	}
	return n.run.w.Sleep(lap)
}

// cancelLater has a program of its own cancel the deed after a while.
func (n *node) cancelLater(d *deed) {
	if d.timeout == 0 {
		return
	}
	n.run.w.Go(fmt.Sprintf("cancel %v", d.what), func(context.Context) error {
		if err := n.run.w.Sleep(d.timeout); err != nil {
			return err
		}
		switch {
		case n.closed:
			return nil
		case d.op != nil:
			d.op.Cancel()
			return nil
		default:
			return n.ep.Cancel(d.id)
		}
	})
}

// reapSends takes completions of posted sends.
func (n *node) reapSends(ctx context.Context) error {
	var cs [16]efa.Completion
	looked := n.run.w.Elapsed()
	k, err := n.sq.Read(ctx, cs[:])
	if err != nil {
		return fmt.Errorf("read the send queue, %d to come: %w", n.sendsOut, err)
	}
	for i := range cs[:k] {
		c := &cs[i]
		d := n.deeds[c.Token-1]
		if d.style == injected { // nothing is heard of it but a failure
			if c.Err == nil {
				n.run.fail("%v: a completion of what was injected: %+v", d.what, *c)
			}
			d.protocol = c.Protocol
			d.outcome(d, c.Err)
			continue
		}
		if c.ID != d.id {
			n.run.fail("%v is operation %d, its completion says %d", d.what, d.id, c.ID)
		}
		n.sendsOut--
		d.began, d.protocol = max(d.began, looked), c.Protocol
		n.end(d, c.Err)
	}
	return nil
}

// finishSends waits for everything that was begun.
func (n *node) finishSends(ctx context.Context) error {
	for n.sendsOut > 0 {
		if err := n.reapSends(ctx); err != nil {
			return err
		}
	}
	for _, d := range n.started {
		d.began = n.run.w.Elapsed() // its completion was not read before
		c, err := d.op.Wait(ctx)
		if err != nil && !d.ended && c.Kind == 0 {
			return fmt.Errorf("wait for %v: %w", d.what, err)
		}
		d.protocol = c.Protocol
		n.end(d, err)
	}
	return n.settle()
}

// settle waits until the counter has everything, so what was injected too.
func (n *node) settle() error {
	for {
		ok, failed := n.sends.Value()
		switch {
		case ok+failed > n.submitted+n.unsure:
			return fmt.Errorf("%d outcomes of %d operations", ok+failed, n.submitted+n.unsure)
		case ok+failed >= n.submitted:
			return nil
		}
		if err := n.run.w.Sleep(lap); err != nil {
			return err
		}
	}
}
