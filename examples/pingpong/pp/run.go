package pp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/examples/pingpong/ctrl"
)

// Run measures with the partner at the other end of conn, size after size, and
// calls report for each. It returns once the partner has reported its end as well,
// or with the first error. Call it once.
func (s *Side) Run(ctx context.Context, conn *ctrl.Conn, report func(Result) error) error {
	to, err := s.meet(ctx, conn)
	if err != nil {
		return err
	}
	g := &game{Side: s, conn: conn, to: to}
	if err := g.expect(); err != nil {
		return err
	}
	defer s.round.Store(nil)
	for i, size := range s.cfg.Sizes {
		at := func(n int, warmup bool) *doing {
			return &doing{bytes: size, at: i + 1, sizes: len(s.cfg.Sizes), count: n, warmup: warmup}
		}
		count := s.cfg.Iterations
		if warmup := s.cfg.warmup(size); warmup > 0 {
			r, err := g.play(ctx, at(warmup, true))
			if err != nil {
				return err
			}
			if count == 0 {
				if count, err = conn.Count(ctx, r.suitable()); err != nil { // the client's holds
					return err
				}
			}
		}
		r, err := g.play(ctx, at(count, false))
		if err != nil {
			return err
		}
		if err := report(r); err != nil {
			return err
		}
	}
	return g.finish(ctx)
}

// A round whose length is not given takes about roundTime, which lets all 48 sizes pass in 10 s on a
// machine that is busy with other things. On one that isn't, mostRounds end most of them sooner.
const (
	roundTime    = 100 * time.Millisecond
	mostRounds   = 10_000
	fewestRounds = 20
)

// warmup is how many messages of a size go before those that count.
func (c *Config) warmup(size int) int {
	if c.Iterations > 0 {
		return c.Warmup
	}
	return min(max(mostRounds/10*4096/max(size, 1), fewestRounds), mostRounds/10)
}

// suitable is how many messages each way take roundTime, if r is of a warm-up.
func (r Result) suitable() int {
	return int(min(max(roundTime*time.Duration(r.Sent)/r.Elapsed, fewestRounds), mostRounds))
}

// meet swaps addresses with the partner.
func (s *Side) meet(ctx context.Context, conn *ctrl.Conn) (efa.Addr, error) {
	raw, err := conn.Meet(ctx, s.own)
	if err != nil {
		return 0, err
	}
	s.stranger = s.scheme == "shm" && raw.GID() != s.own.GID()
	to, err := s.ep.AddressVector().Insert(efa.NewAddress(s.scheme, raw))
	if err != nil {
		return 0, fmt.Errorf("address of the partner: %w", err)
	}
	return to, nil
}

// game is a Side with a partner.
type game struct {
	*Side
	conn  *ctrl.Conn
	to    efa.Addr
	heard atomic.Bool // of the partner, on the fabric
	next  [2]*efa.Op  // the receives that are posted, see expect
}

// play plays a round: so many times with one size.
func (g *game) play(ctx context.Context, d *doing) (Result, error) {
	size, n := d.bytes, d.count
	r := Result{Bytes: size, Sent: n}
	if err := g.conn.Sync(ctx); err != nil {
		return r, explain(err, size, 0)
	}
	w := g.conn.Watch(ctx)
	defer g.lookForOthers(w)()
	d.began = time.Now()
	g.round.Store(d)
	done, err := g.exchange(w, &r, d)
	r.Elapsed = max(time.Since(d.began), 1)
	w.Stop()
	if err != nil {
		return r, explain(g.elsewhere(err), size, done)
	}
	g.stranger = false
	if r.Acked, err = g.conn.Count(ctx, n); err != nil {
		return r, explain(err, size, done)
	}
	return r, nil
}

// timedRounds of each size, at most, are timed one by one: a look at the clock takes a few percent
// of a short round.
const timedRounds = 1000

// exchange returns how many messages were received.
func (g *game) exchange(w *ctrl.Watch, r *Result, d *doing) (int, error) {
	stride := (r.Sent + timedRounds - 1) / timedRounds
	r.rounds = make([]time.Duration, 0, min(r.Sent, timedRounds))
	for i := range r.Sent {
		timed, began := i%stride == 0, time.Duration(0)
		if timed {
			began = time.Since(d.began)
		}
		// The partner may send while our last message still waits for its
		// acknowledgement, so only receiving checks w.Silent.
		if !g.conn.Server() {
			if err := g.send(w.Alive, r, i == 0); err != nil {
				return i, err
			}
		}
		if err := g.recv(w.Silent, r.Bytes); err != nil {
			return i, err
		}
		g.heard.Store(true)
		d.done.Store(int64(i + 1))
		if g.conn.Server() {
			if err := g.send(w.Alive, r, i == 0); err != nil {
				return i, err
			}
		}
		if timed {
			r.rounds = append(r.rounds, time.Since(d.began)-began)
		}
	}
	slices.Sort(r.rounds)
	return r.Sent, nil
}

// send sends one message. The first of a round uses an Op, which knows the
// subprotocol that carried it.
func (g *game) send(ctx context.Context, r *Result, first bool) error {
	p := g.tx[:r.Bytes]
	if g.cfg.Check {
		g.out.Fill(p)
	}
	switch {
	case first:
		op, err := g.ep.Start(&efa.SendReq{To: g.to, Buf: p, Tagged: g.cfg.Tagged, Tag: Tag})
		if err != nil {
			return err
		}
		c, err := op.Wait(ctx)
		r.Protocol = c.Protocol
		return err
	case g.cfg.Tagged:
		return g.ep.SendTag(ctx, g.to, Tag, p)
	default:
		return g.ep.Send(ctx, g.to, p)
	}
}

// finish exchanges the last messages on the fabric. A partner that has finished
// closes the control connection, even if its last message is still in flight, so
// the connection is not watched now.
func (g *game) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, g.conn.Patience)
	defer cancel()
	if g.cfg.Datagram && g.conn.Server() { // the client may not have posted its receive yet
		if err := g.end(ctx); err != nil {
			return err
		}
		return g.sendEnd(ctx)
	}
	if err := g.sendEnd(ctx); err != nil {
		return err
	}
	return g.end(ctx)
}

func (g *game) sendEnd(ctx context.Context) (err error) {
	n := copy(g.tx, fin)
	if g.cfg.Tagged {
		err = g.ep.SendTag(ctx, g.to, Tag, g.tx[:n])
	} else {
		err = g.ep.Send(ctx, g.to, g.tx[:n])
	}
	if err != nil {
		return fmt.Errorf("last message: %w", err)
	}
	return nil
}

// end receives the partner's last message.
func (g *game) end(ctx context.Context) error {
	p, err := g.recvAny(ctx)
	if err != nil {
		return fmt.Errorf("last message of the partner: %w", err)
	}
	// Only the length counts: where a provider wants a prefix before messages, as
	// that of EFA does, the tool puts the word in there, and sends the bytes after
	// it.
	if len(p) != len(fin) {
		return fmt.Errorf("the partner goes on with %d bytes where its last message was due: start both sides with the same -S", len(p))
	}
	return nil
}

// elsewhere returns a likely reason why a partner without any answer cannot be
// reached. Another GID alone is no reason: a directory may have several.
func (g *game) elsewhere(err error) error {
	if !g.stranger || !errors.Is(err, efa.ErrPeerFailed) {
		return err
	}
	return fmt.Errorf("the partner is not in %s: shared memory joins processes of one host and one user with the same -device (%w)",
		g.dom.Limits().Device, err)
}

// explain adds to an error the place where it occurred, and its likely cause.
func explain(err error, size, done int) error {
	hint := ""
	switch {
	case errors.Is(err, ctrl.ErrEarly):
		err, hint = ctrl.ErrEarly, sameFlags // and not how the wait for a message ended
	case errors.Is(err, ctrl.ErrSilent):
		hint = sameFlags
	case errors.Is(err, ctrl.ErrGone):
		err, hint = ctrl.ErrGone, "; it will have said why"
	}
	return fmt.Errorf("messages of %s, after %d: %w%s", sizeText(uint64(size)), done, err, hint)
}

const sameFlags = " (start both sides with the same -I and -S)"
