package flow

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// Hub receives streams of several sides at once.
type Hub struct {
	Endpoint *efa.Endpoint
	Queue    *efa.Queue
	Senders  []efa.Addr
}

// hub is one at work.
type hub struct {
	*Hub
	Plan

	slots        []*inbox // by the token of their receives
	received     []int    // from each sender
	ready, done  int      // senders of which all that do not count have come, and all
	began, ended clock.Time
}

// inbox is a receive buffer for a sender.
type inbox struct {
	buf    []byte
	sender int
}

// OpenFan makes this process the hub if it is rank 0, and else a side that sends to it.
func OpenFan(ctx context.Context, device string, mode efa.Progress) (*Hub, *Side, func() error, error) {
	s := new(Side)
	cfg := s.launch(device, mode)
	g, err := cfg.Init(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if g.Rank == 0 {
		return &Hub{g.Endpoint, s.Queue, g.Peers[1:]}, nil, g.Close, nil
	}
	s.Domain, s.Endpoint, s.Peer = g.Domain, g.Endpoint, g.Peers[0] // and Rank is 0: it sends
	return nil, s, g.Close, nil
}

// Run does what the plan says with each sender, which does it by Side.Run. The result has the
// count of one sender, and the time from when all were ready until all had come.
func (h *Hub) Run(ctx context.Context, p Plan) (*Result, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	r := &hub{Hub: h, Plan: p, received: make([]int, len(h.Senders))}
	for sender := range h.Senders {
		bufs := make([][]byte, p.Buffers)
		for i := range bufs {
			bufs[i] = make([]byte, p.Size)
		}
		for i := range p.Window {
			r.slots = append(r.slots, &inbox{bufs[i%p.Buffers], sender})
			if err := r.post(ctx, len(r.slots)-1); err != nil {
				return nil, err
			}
		}
	}
	var cs [64]efa.Completion
	for r.done < len(h.Senders) {
		n, err := h.Queue.Read(ctx, cs[:])
		if err != nil {
			return nil, err
		}
		for i := range cs[:n] {
			if err := r.completed(ctx, &cs[i]); err != nil {
				return nil, err
			}
		}
	}
	res := &Result{Count: p.Count, Nanos: []int64{int64(r.ended.Sub(r.began))}, Wrong: r.wrong()}
	return res, r.part(ctx, res)
}

// post posts the receive of a slot, and waits where the way to the shard is full.
func (r *hub) post(ctx context.Context, slot int) error {
	s := r.slots[slot]
	for {
		_, err := r.Endpoint.PostRecv(&efa.RecvReq{From: r.Senders[s.sender], Directed: true, Buf: s.buf, Token: uint64(slot)}) //nolint:gosec // an index
		if !errors.Is(err, efa.ErrAgain) {
			return err
		}
		if _, err := r.Endpoint.Stats(ctx); err != nil { // comes after all that is on the way
			return err
		}
	}
}

// completed deals with a message. All senders get their first answers that count together,
// when the clock starts.
func (r *hub) completed(ctx context.Context, c *efa.Completion) error {
	if c.Err != nil {
		return c.Err
	}
	if c.N != r.Size {
		return fmt.Errorf("a message has %d bytes, not %d", c.N, r.Size)
	}
	s, total := r.slots[c.Token], r.Warm+r.Count
	r.received[s.sender]++
	n := r.received[s.sender]
	if n+r.Window <= total {
		if err := r.post(ctx, int(c.Token)); err != nil { //nolint:gosec // an index
			return err
		}
	}
	switch {
	case n%r.Batch != 0:
		return nil
	case n == r.Warm:
		if r.ready++; r.ready < len(r.Senders) {
			return nil
		}
		r.began = clock.System.Now()
		for i := range r.Senders {
			if err := r.answer(ctx, i); err != nil {
				return err
			}
		}
		return nil
	case n == total:
		if r.done++; r.done == len(r.Senders) {
			r.ended = clock.System.Now()
		}
	}
	return r.answer(ctx, s.sender)
}

func (r *hub) answer(ctx context.Context, sender int) error {
	var none [8]byte
	return r.Endpoint.SendTag(ctx, r.Senders[sender], ackTag, none[:], efa.Inject)
}

// wrong counts the buffers that do not hold what was sent.
func (r *hub) wrong() (n int) {
	want := make([]byte, r.Size)
	fill(want)
	for _, s := range r.slots {
		if !bytes.Equal(s.buf, want) {
			n++
		}
	}
	return n
}

// part is the end of each side: it learns what was wrong, and says that it has.
func (r *hub) part(ctx context.Context, res *Result) error {
	number := make([]byte, 8)
	binary.LittleEndian.PutUint64(number, uint64(res.Wrong)) //nolint:gosec // a count
	for _, to := range r.Senders {
		if err := r.Endpoint.SendTag(ctx, to, ackTag, number); err != nil {
			return err
		}
	}
	for range r.Senders {
		if _, err := r.Endpoint.RecvTag(ctx, efa.Match{Tag: ackTag}, number); err != nil {
			return err
		}
	}
	return nil
}
