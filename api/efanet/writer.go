package efanet

import (
	"context"
	"errors"
	"sync"
	"syscall"
)

// writer is the half of a connection that sends. Calls of Write have it one at a time, under mu;
// after the end of writing they touch nothing, and the goroutine that sends FIN has it.
type writer struct {
	limit

	mu      sync.Mutex
	c       *Conn
	err     error  // what each Write returns
	window  int    // all of the reader's credit
	credit  int    // what of it is left
	pos     uint64 // how many bytes of the stream were sent
	seq     uint16 // of the latest OFFER
	offered int    // bytes of it that were not sent; 0: it is over
	granted int    // bytes of it that are to be sent now
	stopped bool   // the other side has sent STOP
}

// write is Write, without the error's form. A byte counts in n if the other side is sure to have
// it: an injected frame was handed over, a transfer is complete.
func (w *writer) write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
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
			m, err = w.inject(w.ctx(), kindData, w.pos, rest[:min(len(rest), maxFrame)])
		} else {
			m, err = w.bulk(w.ctx(), rest[:min(len(rest), maxOffer)])
		}
		if n += m; err != nil && !errors.Is(err, errMoved) {
			return n, err
		}
	}
}

// inject sends a frame on the stream as soon as there is credit for it. The frame is copied, and
// nothing can take it back once it was accepted.
func (w *writer) inject(ctx context.Context, k kind, value uint64, p []byte) (int, error) {
	for w.credit < cost(len(p)) {
		if err := w.heed(ctx); err != nil {
			return 0, err
		}
	}
	if err := w.c.send(ctx, laneStream, k, value, p); err != nil {
		return 0, w.keep(ctx, err)
	}
	w.credit -= cost(len(p))
	w.pos += uint64(len(p))
	return len(p), nil
}

// bulk offers p to the reader and sends what it grants, from where it lies. If ctx ends before the
// reader has taken all, the offer is withdrawn.
func (w *writer) bulk(ctx context.Context, p []byte) (n int, err error) {
	w.seq++
	if _, err := w.inject(ctx, kindOffer, sized(w.seq, len(p)), nil); err != nil {
		return 0, err
	}
	w.offered, w.granted = len(p), 0
	for w.offered > 0 && err == nil {
		if w.granted == 0 {
			err = w.heed(ctx)
			continue
		}
		m := w.granted
		if err = w.c.move(kindBulk, sized(w.seq, 0), p[n:n+m]); err != nil {
			return n, w.c.broken(&w.err, err)
		}
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
	case f.kind == kindGrant && (w.offered == 0 || f.seq() != w.seq):
		// It is for an offer that was withdrawn meanwhile.
	case f.kind == kindGrant && w.granted == 0 && f.size() <= w.offered:
		w.granted = f.size()
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
	if err := w.c.acknowledged(ctx, laneStream, k, value); err != nil {
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
