package flow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	dataTag = 1 // of messages, if the plan has them tagged
	ackTag  = 2 // of the receiver's answers, which always are
)

// run is a side at work.
type run struct {
	*Side
	Plan

	send, recv     bool    // what this side does
	slots          []*slot // all, by the token of their operations
	free           []*slot
	sent, finished int // messages
	received       int
	answered       int // batches that the peer has said it has
	began, ended   clock.Time
	before         time.Duration // CPU time when the clock starts
	usage          Usage         // of this side, for the messages that count
	counts         *versus.Counts
	answer         *slot // a receive
	theirs         int64 // nanoseconds, from the last answer
}

// slot is a buffer with an operation that may be under way on it.
type slot struct {
	buf   []byte
	token uint64
}

func (r *run) slot(buf []byte) *slot {
	s := &slot{buf, uint64(len(r.slots))}
	r.slots = append(r.slots, s)
	return s
}

// Run does what the plan says. Rank 0 has the result of both sides, rank 1 its own.
func (s *Side) Run(ctx context.Context, p Plan) (res *Result, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	r := &run{Side: s, Plan: p, send: s.Rank == 0 || p.Both, recv: s.Rank == 1 || p.Both}
	out, in, free, err := r.buffers()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, free()) }()
	if err := r.prepare(out, in); err != nil {
		return nil, err
	}
	if err := r.loop(ctx); err != nil {
		return nil, err
	}
	res = r.result(in)
	return res, r.part(ctx, res)
}

// prepare posts the receives.
func (r *run) prepare(out, in [][]byte) error {
	for i := range r.Window {
		if r.send {
			r.free = append(r.free, r.slot(out[i%r.Buffers]))
		}
		if r.recv {
			if err := r.postRecv(r.slot(in[i%r.Buffers])); err != nil {
				return err
			}
		}
	}
	r.answer = r.slot(make([]byte, 8))
	if !r.send {
		return nil
	}
	return r.postAnswer()
}

// total is how many messages go each way.
func (r *run) total() int { return r.Warm + r.Count }

// loop streams until everything has gone, was answered, and has come.
func (r *run) loop(ctx context.Context) error {
	var cs [64]efa.Completion
	for {
		if r.send {
			if err := r.postSends(); err != nil {
				return err
			}
		}
		if (!r.send || r.answered*r.Batch == r.total()) && (!r.recv || r.received == r.total()) {
			return nil
		}
		n, err := r.Queue.Read(ctx, cs[:])
		if err != nil {
			return err
		}
		for i := range cs[:n] {
			if err := r.completed(ctx, &cs[i]); err != nil {
				return err
			}
		}
	}
}

// postSends fills the window, as far as the batch goes.
func (r *run) postSends() error {
	for r.sent < min((r.answered+1)*r.Batch, r.total()) && len(r.free) > 0 {
		s := r.free[len(r.free)-1]
		_, err := r.Endpoint.PostSend(&efa.SendReq{To: r.Peer, Buf: s.buf, Tagged: r.Tagged, Tag: dataTag, Token: s.token})
		if errors.Is(err, efa.ErrAgain) {
			return nil // there are outstanding ones
		}
		if err != nil {
			return err
		}
		r.free = r.free[:len(r.free)-1]
		r.sent++
	}
	return nil
}

func (r *run) postRecv(s *slot) error {
	_, err := r.Endpoint.PostRecv(&efa.RecvReq{Buf: s.buf, Tagged: r.Tagged, Tag: dataTag, Token: s.token})
	return err
}

func (r *run) postAnswer() error {
	_, err := r.Endpoint.PostRecv(&efa.RecvReq{Buf: r.answer.buf, Tagged: true, Tag: ackTag, Token: r.answer.token})
	return err
}

// completed deals with the end of an operation.
func (r *run) completed(ctx context.Context, c *efa.Completion) error {
	s := r.slots[c.Token]
	switch {
	case c.Err != nil:
		return c.Err
	case s == r.answer:
		r.answered++
		r.account(r.answered * r.Batch)
		if r.answered*r.Batch == r.total() {
			r.theirs = int64(binary.LittleEndian.Uint64(s.buf)) //nolint:gosec // as the peer wrote it
			return nil
		}
		return r.postAnswer()
	case c.Kind == efa.Sent:
		r.finished++
		r.free = append(r.free, s)
		return nil
	}
	if c.N != r.Size {
		return fmt.Errorf("message %d has %d bytes, not %d", r.received, c.N, r.Size)
	}
	r.received++
	if r.Think > 0 {
		versus.Compute(r.Think)
	}
	if r.received+r.Window <= r.total() {
		if err := r.postRecv(s); err != nil {
			return err
		}
	}
	if r.received%r.Batch != 0 {
		return nil
	}
	return r.complete(ctx)
}

// account notes what this side has used, where the clock starts and ends.
func (r *run) account(messages int) {
	switch messages {
	case r.Warm:
		if r.Think > 0 && r.counts == nil { // else what the counting costs matters
			r.counts = versus.Count(os.Getpid())
		}
		r.before = versus.OwnCPU()
	case r.total():
		r.usage.CPU = versus.OwnCPU() - r.before
		if r.counts != nil {
			r.usage.Calls, r.usage.Switches = r.counts.Close()
		}
	}
}

// complete answers for a batch.
func (r *run) complete(ctx context.Context) error {
	r.account(r.received)
	switch r.received {
	case r.Warm:
		r.began = clock.System.Now()
	case r.total():
		r.ended = clock.System.Now()
	}
	var ns [8]byte
	binary.LittleEndian.PutUint64(ns[:], uint64(r.ended.Sub(r.began))) //nolint:gosec // the peer reads it as signed
	return r.Endpoint.SendTag(ctx, r.Peer, ackTag, ns[:], efa.Inject)
}

// part makes sure that neither side leaves before the other has everything.
func (r *run) part(ctx context.Context, res *Result) error {
	for r.send && r.finished < r.sent {
		var cs [64]efa.Completion
		n, err := r.Queue.Read(ctx, cs[:])
		if err != nil {
			return err
		}
		for i := range cs[:n] {
			if err := r.completed(ctx, &cs[i]); err != nil {
				return err
			}
		}
	}
	mine, theirs := make([]byte, 0, 32), make([]byte, 32)
	for _, n := range []int{res.Wrong, int(r.usage.CPU), r.usage.Switches, r.usage.Calls} {
		mine = binary.LittleEndian.AppendUint64(mine, uint64(n)) //nolint:gosec // a count
	}
	if r.Rank == 0 {
		if _, err := r.Endpoint.RecvTag(ctx, efa.Match{Tag: ackTag}, theirs); err != nil {
			return err
		}
		word := func(i int) int { return int(binary.LittleEndian.Uint64(theirs[8*i:])) } //nolint:gosec // a count
		res.Wrong += word(0)
		res.Sender, res.Receiver = r.usage, Usage{time.Duration(word(1)), word(2), word(3)}
		return r.Endpoint.SendTag(ctx, r.Peer, ackTag, mine[:8])
	}
	if err := r.Endpoint.SendTag(ctx, r.Peer, ackTag, mine); err != nil {
		return err
	}
	_, err := r.Endpoint.RecvTag(ctx, efa.Match{Tag: ackTag}, theirs)
	return err
}
