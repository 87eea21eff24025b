package death

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// judge says what is wrong after a play, with or without a fault.
func (r *run) judge() {
	for _, s := range []*side{r.a, r.b} {
		for _, d := range s.deeds {
			if !s.gone {
				r.judgeDeed(d)
			}
		}
	}
	for _, s := range r.alive() {
		if r.settle(s, "after its operation") {
			r.clean = max(r.clean, r.w.Elapsed()-r.struckAt)
		}
	}
	r.pass(r.deadline() - r.w.Elapsed()) // what ends by itself later has ended, too
	if len(r.alive()) == 2 {
		r.again()
	}
	if r.back != nil {
		for _, s := range r.alive() {
			r.greet(s, r.back, 1)
		}
	}
	for _, s := range r.alive() {
		r.fresh(s)
	}
	r.close()
}

// judgeDeed holds an operation to one outcome, and to that of the other side.
func (r *run) judgeDeed(d *deed) {
	switch {
	case d.outcomes > 0:
	case r.excused(d):
		return
	default:
		r.badf("%s: %s has no outcome %v after the fault: %s", d.side.name, d.what, r.w.Elapsed()-r.struckAt, r.waits(d.side))
		return
	}
	if d.at > r.struckAt {
		r.outcome = max(r.outcome, d.at-r.struckAt)
	}
	calm := r.fault == nil || r.fault.mild
	if calm && !r.play.fickle && d.err != nil {
		r.badf("%s: %s failed: %v", d.side.name, d.what, d.err)
	}
	// What was reported as sent is there, if its receiver lives: a receive that failed before
	// the message came is made again. One that had taken it has told its application.
	if o := d.pair; d.what == "send" && d.err == nil && !o.side.gone && !o.side.closed && o.outcomes > 0 && o.err != nil &&
		o.proto == "-" && !r.play.fickle && !r.receivable(o) {
		r.badf("%s: the message was sent and dropped: its receive failed: %v", o.side.name, o.err)
	}
}

// excused reports whether a receive may wait: there is no message for it, since the send
// failed and the sender lives. It is canceled.
func (r *run) excused(d *deed) bool {
	if d.what != "receive" || d.side.closed || d.pair.side.gone || d.pair.side.closed || d.pair.outcomes == 0 || d.pair.err == nil {
		return false
	}
	if err := d.side.ep.Cancel(d.id); err != nil {
		return false
	}
	r.w.Go("cancel", func(ctx context.Context) error {
		ctx, cancel := r.w.WithTimeout(ctx, slack)
		defer cancel()
		var cs [1]efa.Completion
		n, err := d.side.q.Read(ctx, cs[:])
		d.side.take(cs[:n])
		if errors.Is(err, context.DeadlineExceeded) {
			return nil
		}
		return err
	})
	r.finish()
	return d.outcomes == 1 && errors.Is(d.err, efa.ErrCanceled) && d.proto == "-"
}

// receivable receives the message of a receive that failed.
func (r *run) receivable(d *deed) (ok bool) {
	r.w.Go("receive again", func(ctx context.Context) error {
		ctx, cancel := r.w.WithTimeout(ctx, slack)
		defer cancel()
		var err error
		if d.tagged {
			_, err = d.side.ep.RecvTag(ctx, efa.Match{Tag: 5}, d.into)
		} else {
			_, err = d.side.ep.Recv(ctx, d.into)
		}
		ok = err == nil && bytes.Equal(d.into, d.want)
		return nil
	})
	r.finish()
	return ok
}

// waits says what a side waits for.
func (r *run) waits(s *side) string {
	snap, err := s.ep.Snapshot(context.Background())
	if err != nil {
		return err.Error()
	}
	return strings.Join(left(snap), "; ")
}

// left lists what an endpoint that has nothing to do has in use.
func left(s *efa.Snapshot) []string {
	var list []string
	for _, o := range s.Operations {
		list = append(list, fmt.Sprintf("%s by %s in %s waits for %s", o.Kind, o.Protocol, o.State, o.Waits))
	}
	for _, x := range []struct {
		what string
		n    int64
	}{
		{"packet entries", int64(s.Queues.SendUsed)},
		{"posted receives", int64(s.Queues.PostedReceives)},
		{"unexpected messages", int64(s.Queues.Unexpected)},
		{"bytes held", s.Queues.HeldBytes},
		{"txes", int64(s.Counters["TxInUse"])},
		{"rxes", int64(s.Counters["RxInUse"])},
	} {
		if x.n != 0 {
			list = append(list, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	for _, p := range s.Peers {
		if p.Operations+p.InLine+p.Resends+p.OutOfOrder != 0 || p.HeldBytes != 0 {
			list = append(list, fmt.Sprintf("peer: %d operations, %d in line, %d resends, %d out of order, %d bytes",
				p.Operations, p.InLine, p.Resends, p.OutOfOrder, p.HeldBytes))
		}
	}
	return list
}

// settle waits until nothing is left of a side's operations.
func (r *run) settle(s *side, when string) bool {
	var rest []string
	r.w.Go(s.name+" settles", func(ctx context.Context) error {
		for {
			snap, err := s.ep.Snapshot(ctx)
			if err != nil {
				return err
			}
			if rest = left(snap); len(rest) == 0 {
				return nil
			}
			for _, x := range r.alive() {
				r.drain(ctx, x)
			}
			if r.w.Elapsed() > r.deadline() {
				return nil
			}
			if err := r.w.Sleep(10 * time.Millisecond); err != nil {
				return err
			}
		}
	})
	r.finish()
	if len(rest) > 0 {
		r.badf("%s: left %s, %v after the fault: %s", s.name, when, r.w.Elapsed()-r.struckAt, strings.Join(rest, "; "))
	}
	return len(rest) == 0
}

// drain receives what came for a receive that was canceled, as an application would.
func (r *run) drain(ctx context.Context, s *side) {
	if !r.play.fickle || r.w.Elapsed() < s.stillUntil {
		return
	}
	for {
		if _, err := s.ep.Peek(ctx); err != nil {
			return
		}
		ctx, cancel := r.w.WithTimeout(ctx, time.Millisecond)
		_, _ = s.ep.Recv(ctx, make([]byte, region)) // that the message goes is all that counts
		cancel()
	}
}

// drainWhile does that until the other side has had its outcomes.
func (r *run) drainWhile(ctx context.Context, s, other *side) error {
	for r.play.fickle && !s.gone && !other.gone && !other.over() && r.w.Elapsed() < r.deadline() {
		if s.over() {
			r.drain(ctx, s)
		}
		if err := s.sleep(10 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// close closes everything, in time.
func (r *run) close() {
	for _, s := range []*side{r.a, r.b, r.back} {
		if s == nil {
			continue
		}
		from := r.w.Elapsed()
		for _, c := range []io.Closer{s.ep, s.mem, s.buf, s.q, s.av, s.dom, s.fab} {
			if err := c.Close(); err != nil && !s.gone {
				r.badf("%s: close %T: %v", s.name, c, err)
			}
		}
		if took := r.w.Elapsed() - from; took > time.Second+slack && !s.gone {
			r.badf("%s: closing took %v", s.name, took)
		}
	}
}
