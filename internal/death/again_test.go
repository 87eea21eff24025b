package death

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// ping sends a message that nothing else is like from x to y, and reports whether it was
// sent, and whether it came.
func (r *run) ping(x, y *side, n int, tag uint64, bound time.Duration) (sent, came error) {
	to := x.knows(y)
	want := pattern(n, byte(tag))
	sent, came = errors.New("no outcome"), errors.New("no outcome")
	ended := false
	r.w.Go(x.name+" pings", func(ctx context.Context) error {
		defer func() { ended = true }()
		op, err := x.ep.Start(&efa.SendReq{To: to, Buf: want, Tagged: true, Tag: tag})
		if err != nil {
			return err
		}
		ctx, cancel := r.w.WithTimeout(ctx, bound)
		defer cancel()
		if _, sent = op.Wait(ctx); errors.Is(sent, context.DeadlineExceeded) {
			sent = fmt.Errorf("no outcome after %v: %w", bound, sent)
		}
		return nil
	})
	r.w.Go(y.name+" is pinged", func(ctx context.Context) error {
		into := make([]byte, n)
		op, err := y.ep.Start(&efa.RecvReq{Buf: into, Tagged: true, Tag: tag})
		if err != nil {
			return err
		}
		for extra := 10; extra > 0; {
			if ended {
				extra--
			}
			err := func() error {
				ctx, cancel := r.w.WithTimeout(ctx, 5*time.Millisecond)
				defer cancel()
				_, err := op.Wait(ctx)
				return err
			}()
			if !errors.Is(err, context.DeadlineExceeded) {
				if came = err; err == nil && !bytes.Equal(into, want) {
					came = errors.New("other data came")
				}
				return nil
			}
		}
		op.Cancel()
		_, came = op.Wait(ctx)
		return nil
	})
	r.finish()
	return sent, came
}

// again has both sides send once more after the fault. A mild one is forgotten; after any
// other a message may be refused, but not lost.
func (r *run) again() {
	bound := patience + probe + slack
	for i, x := range [][2]*side{{r.a, r.b}, {r.b, r.a}} {
		began := r.w.Elapsed()
		sent, came := r.ping(x[0], x[1], 64, 100+uint64(i), bound)
		took := r.w.Elapsed() - began
		switch calm := r.fault == nil || r.fault.mild; {
		case errors.Is(sent, context.DeadlineExceeded):
			r.badf("%s: a later send: %v", x[0].name, sent)
		case calm && (sent != nil || came != nil || took > slack):
			r.badf("%s: a later send: %v, its receive: %v, after %v", x[0].name, sent, came, took)
		case sent == nil && came != nil:
			r.badf("%s: a later message was sent and dropped", x[0].name)
		}
	}
}

// greet has two sides send to each other, n times.
func (r *run) greet(x, y *side, n int) {
	for i := range n {
		for k, p := range [][2]*side{{y, x}, {x, y}} {
			sent, came := r.ping(p[0], p[1], 64, 200+uint64(2*i+k), patience+probe+slack)
			if sent != nil || came != nil {
				r.badf("%s to %s: %v, %v", p[0].name, p[1].name, sent, came)
			}
		}
	}
}

// fresh has a side talk to an endpoint that it has never heard of. All its receive slots
// are in use afterwards: they are posted eight at a time, so that many messages go.
func (r *run) fresh(s *side) {
	from := r.w.Elapsed()
	x := r.open("fresh", efa.RawAddr{})
	s.seam.most = 0
	r.greet(s, x, 12)
	if sent, came := r.ping(s, x, 12000, 300, slack); sent != nil || came != nil {
		r.badf("%s to a fresh peer: %v, %v", s.name, sent, came)
	}
	if took := r.w.Elapsed() - from; took > slack+12*100*time.Millisecond {
		r.badf("%s: talking to a fresh peer took %v", s.name, took)
	}
	if s.seam.most != recvQueue {
		r.badf("%s: %d of %d receive slots are left", s.name, s.seam.most, recvQueue)
	}
	r.settle(s, "after all")
	for _, c := range []interface{ Close() error }{x.ep, x.mem, x.buf, x.q, x.av, x.dom, x.fab} {
		must(c.Close())
	}
}
