package efanet

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// writer is the half of a connection that sends. Calls of Write have it one at a time, under mu;
// after the end of writing they touch nothing, and the goroutine that sends FIN has it.
type writer struct {
	limit

	mu      sync.Mutex
	c       *Conn
	most    int    // bytes of a frame
	err     error  // what each Write returns
	window  int    // all of the reader's credit
	credit  int    // what of it is left
	pos     uint64 // how many bytes of the stream were sent
	seq     uint16 // of the latest OFFER
	offered int    // bytes of it that were not sent; 0: it is over
	granted int    // bytes of it that are to be sent now
	behind  bool   // what it has granted before goes on from a copy, as far as is known
	stopped bool   // the other side has sent STOP
	presses bool   // the reader joins what has come at PRESS
	pressed bool   // PRESS was sent, and no credit has come since
	atOnce  int    // how often PRESS follows without delay
}

// write is Write, without the error's form. A byte counts in n if the other side is sure to have
// it: an injected frame was handed over, a transfer is complete.
func (w *writer) write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.c.in.repay(w.ctx())
	for {
		switch err := w.limit.err(); {
		case n == len(p) && n > 0:
			return n, nil
		case errors.Is(err, errMoved):
			continue
		case err != nil:
			return n, err
		case w.err != nil:
			return n, w.err
		case len(p) == 0:
			return 0, nil
		}
		var m int
		if rest := p[n:]; len(rest) < minBulk {
			m, err = w.inject(w.ctx(), kindData, w.pos, rest[:min(len(rest), w.most)], len(rest) <= w.most)
		} else {
			m, err = w.bulk(w.ctx(), rest[:min(len(rest), maxOffer)])
		}
		if n += m; err != nil && !errors.Is(err, errMoved) {
			return n, err
		}
	}
}

// inject sends a frame on the stream as soon as there is credit for it. The frame is copied, and
// nothing can take it back once it was accepted. After the last one of a call the device has all of them.
func (w *writer) inject(ctx context.Context, k kind, value uint64, p []byte, last bool) (int, error) {
	for w.credit < cost(len(p)) {
		if err := w.awaitCredit(ctx, len(p)); err != nil {
			return 0, err
		}
	}
	var err error
	if last {
		err = w.c.hand(ctx, laneStream, k, value, p)
	} else {
		err = w.c.send(ctx, laneStream, k, value, p)
	}
	if err != nil {
		return 0, w.keep(ctx, err)
	}
	w.credit -= cost(len(p))
	w.pos += uint64(len(p))
	return len(p), nil
}

const (
	// pressAfter is for how long a writer leaves it to the reader to give credit back.
	pressAfter = time.Millisecond
	// pressAtOnce is how often it does not, once the reader has not, with frames of at most pressSmall bytes:
	// of these a window has so few that it would wait often.
	pressAtOnce = 8
	pressSmall  = 256
)

// awaitCredit waits for a frame of the reader's while there is no credit left for n bytes. If none comes by itself it
// sends PRESS: the other side joins what it has and gives credit back, also if nothing is read.
func (w *writer) awaitCredit(ctx context.Context, n int) error {
	if !w.presses || w.pressed {
		return w.heed(ctx)
	}
	if w.atOnce--; w.atOnce < 0 || n > pressSmall {
		short, cancel := context.WithTimeout(ctx, pressAfter)
		err := w.heed(short)
		if cancel(); err != context.DeadlineExceeded { //nolint:errorlint // it is short's own then, and no operation's
			return err
		}
		w.atOnce = pressAtOnce
	}
	if err := w.c.sendTo(ctx, laneWatch.tag(0), kindPress, w.c.to, nil); err != nil {
		return w.keep(ctx, err)
	}
	w.pressed = true
	return nil
}

// bulk offers p to the reader and sends what it grants, from where it lies. If ctx ends before the
// reader has taken all, the offer is withdrawn.
func (w *writer) bulk(ctx context.Context, p []byte) (n int, err error) {
	w.seq++
	if _, err := w.inject(ctx, kindOffer, sized(w.seq, len(p)), nil, false); err != nil {
		return 0, err
	}
	w.offered, w.granted = len(p), 0
	for w.offered > 0 && err == nil {
		if w.granted == 0 {
			err = w.heed(ctx)
			continue
		}
		var m int
		m, err = w.move(p[n : n+w.granted])
		n += m
		w.pos += uint64(m)
		w.offered -= m
		w.granted = 0
	}
	if w.offered > 0 {
		w.offered = 0
		// The reader waits for this, or will. An error here is one of the peer, which has ended both.
		_ = w.c.send(w.c.hub.ctx, laneBulk, kindWithdraw, sized(w.seq, 0), nil)
	}
	return n, err
}

// move sends what the reader has granted, from where it lies, and returns how much of it the reader has
// or will have: all or nothing. If limit ends before the reader has taken it, it goes on from a
// copy, or is withdrawn if nothing has left yet, or there are too many copies at the endpoint. The reader has
// taken a copy before it grants anything else.
func (w *writer) move(p []byte) (int, error) {
	op, err := w.begin(p)
	for err == nil {
		ctx := w.ctx()
		_, err = op.Wait(ctx)
		switch why := context.Cause(ctx); {
		case err == nil:
			return len(p), nil
		case why == nil: // the error is the operation's
		case errors.Is(why, errMoved):
			err = nil
		default:
			op.Cancel()
			return w.leave(op, len(p), why)
		}
	}
	return 0, w.keep(w.ctx(), err)
}

// begin is the beginning of move.
func (w *writer) begin(p []byte) (*efa.Op, error) {
	for {
		if err := w.c.unreachable(); err != nil {
			return nil, err
		}
		op, err := w.c.hub.ep.Start(&efa.SendReq{
			To: w.c.peer.at, Buf: p, Tagged: true, Tag: laneBulk.tag(w.c.to), HasData: true, Data: head(kindBulk, sized(w.seq, 0)),
		})
		if !errors.Is(err, efa.ErrAgain) {
			return op, err
		}
		ctx := w.ctx()
		again := clock.NewTimer(startAgain)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			if err := context.Cause(ctx); !errors.Is(err, errMoved) {
				return nil, err
			}
		}
	}
}

// leave is the end of a move that was canceled, for the reason why.
func (w *writer) leave(op *efa.Op, n int, why error) (int, error) {
	_, err := op.Wait(w.c.hub.ctx)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, efa.ErrAlready):
		w.behind = true
		return n, why
	case errors.Is(err, efa.ErrCanceled):
		return 0, why
	}
	return 0, w.c.broken(&w.err, err)
}

// heed waits for a frame of the reader's.
func (w *writer) heed(ctx context.Context) error {
	d, err := w.c.next(ctx, laneBack)
	if err != nil {
		return w.keep(ctx, err)
	}
	f, err := parse(laneBack, &d.Message)
	d.Release()
	switch {
	case err != nil:
	case f.kind == kindStop:
		w.stopped, w.err = true, syscall.EPIPE
		return w.err
	case f.kind == kindCredit && w.credit+int(f.value) <= w.window:
		w.credit += int(f.value)
		w.pressed = false
	case f.kind == kindGrant && (w.offered == 0 || f.seq() != w.seq):
		// It is for an offer that was withdrawn meanwhile.
	case f.kind == kindGrant && w.granted == 0 && f.size() <= w.offered:
		w.granted, w.behind = f.size(), false
	default:
		err = violation("a frame of kind %d with value %#x out of turn", f.kind, f.value)
	}
	if err != nil {
		return w.c.broken(&w.err, err)
	}
	return nil
}

// keep returns an error, and has later calls return it as well unless it is one of ctx.
func (w *writer) keep(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return w.c.broken(&w.err, err)
}

// finish ends the stream, behind everything that was written; Write is over by then. After an
// error of the other side or of the way there it is RESET that does, in case it arrives.
func (w *writer) finish(ctx context.Context) {
	settle(&w.mu)
	k, value := kindFin, w.pos
	if w.c.wasReset.Load() || w.err != nil && !w.stopped || w.c.peer.err() != nil {
		k, value = kindReset, 0
	}
	if err := w.c.last(ctx, k, value); err != nil {
		w.err = err
	}
}

// forget waits until the other side reads nothing any more, so that nothing for this half comes
// later. It follows finish.
func (w *writer) forget(ctx context.Context) {
	for w.err == nil && ctx.Err() == nil {
		_ = w.heed(ctx) // the error is w's, or ctx's
	}
}
