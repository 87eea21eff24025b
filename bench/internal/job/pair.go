package job

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

// pair is one of two processes at work.
type pair struct {
	*Job
	*launch.Group
	peer    efa.Addr
	out, in []byte
}

// tag is of the messages there and back; those that wait in the matcher have higher ones.
const tag = 1

// together is a job of two processes. Rank 0 has the result.
func (j *Job) together(ctx context.Context) (res *Result, err error) {
	g, err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if j.Kind == Allreduce {
		return j.allreduce(ctx, g)
	}
	p := &pair{Job: j, Group: g, peer: g.Peers[1-g.Rank], out: make([]byte, j.Size), in: make([]byte, j.Size)}
	if j.Alloc && j.Size > 0 {
		m, err := g.Domain.Alloc(2*j.Size, efa.AccessSend|efa.AccessRecv)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		b := m.Bytes()
		p.out, p.in = b[:j.Size:j.Size], b[j.Size:]
	}
	for i := range p.out { // has the pages there before the clock runs
		p.out[i], p.in[i] = 1, 0
	}
	if err := p.fill(ctx); err != nil {
		return nil, err
	}
	return p.measure(ctx)
}

func (p *pair) measure(ctx context.Context) (*Result, error) {
	if err := p.play(ctx, p.Warm); err != nil {
		return nil, err
	}
	res := new(Result)
	used := versus.OwnCPU()
	began := clock.System.Now()
	if err := p.play(ctx, p.Count); err != nil {
		return nil, err
	}
	took := clock.System.Now().Sub(began)
	mine := versus.OwnCPU() - used
	if p.in[max(len(p.in), 1)-1:][0] != 1 { // the last byte has come
		return nil, errors.New("the messages are not what was sent")
	}
	n := max(p.Count, 1)
	res.Nanos = float64(took) / float64(n)
	theirs, err := p.swap(ctx, int64(mine))
	if err != nil {
		return nil, err
	}
	res.CPU = float64(int64(mine)+theirs) / float64(2*n)
	if err := p.tails(ctx, res); err != nil {
		return nil, err
	}
	if err := p.idle(ctx, res); err != nil {
		return nil, err
	}
	if p.Rank != 0 {
		return nil, nil //nolint:nilnil // the other process has the result
	}
	return res, nil
}

// play sends n messages each way.
func (p *pair) play(ctx context.Context, n int) error {
	for range n {
		if err := p.trip(ctx); err != nil {
			return err
		}
	}
	return nil
}

// trip is a message there and one back. Where something waits in the matcher they have
// tags.
func (p *pair) trip(ctx context.Context) error {
	if p.Rank == 0 {
		if err := p.send(ctx); err != nil {
			return err
		}
		return p.recv(ctx)
	}
	if err := p.recv(ctx); err != nil {
		return err
	}
	return p.send(ctx)
}

func (p *pair) send(ctx context.Context) error {
	if p.Depth > 0 || p.Came {
		return p.Endpoint.SendTag(ctx, p.peer, tag, p.out)
	}
	return p.Endpoint.Send(ctx, p.peer, p.out)
}

func (p *pair) recv(ctx context.Context) (err error) {
	var m efa.Message
	if p.Depth > 0 || p.Came {
		m, err = p.Endpoint.RecvTag(ctx, efa.Match{Tag: tag}, p.in)
	} else {
		m, err = p.Endpoint.Recv(ctx, p.in)
	}
	if err == nil && m.N != len(p.in) {
		err = fmt.Errorf("a message has %d bytes, not %d", m.N, len(p.in))
	}
	return err
}

// swap tells the peer a number and learns its own.
func (p *pair) swap(ctx context.Context, n int64) (int64, error) {
	const swapTag = 2
	out, in := make([]byte, 8), make([]byte, 8)
	binary.LittleEndian.PutUint64(out, uint64(n)) //nolint:gosec // the peer reads it as signed
	op, err := p.post(ctx, &efa.RecvReq{Buf: in, Tagged: true, Tag: swapTag})
	if err != nil {
		return 0, err
	}
	if err := p.Endpoint.SendTag(ctx, p.peer, swapTag, out); err != nil {
		return 0, err
	}
	_, err = op.Wait(ctx)
	return int64(binary.LittleEndian.Uint64(in)), err //nolint:gosec // as the peer wrote it
}

// tails times round trips one by one.
func (p *pair) tails(ctx context.Context, res *Result) error {
	if p.Timed == 0 {
		return nil
	}
	trips := make([]float64, p.Timed)
	for i := range trips {
		trips[i] = -1 // so that the kernel gives the memory now
	}
	before := clock.System.Now()
	for i := range trips {
		if err := p.trip(ctx); err != nil {
			return err
		}
		now := clock.System.Now()
		trips[i], before = float64(now.Sub(before)), now
	}
	slices.Sort(trips)
	res.Tails = map[string]float64{
		"p50": versus.Percentile(trips, 50), "p99": versus.Percentile(trips, 99), "p99.9": trips[(len(trips)-1)*999/1000],
	}
	return nil
}

// idle is what the first process uses while the endpoint waits for nothing.
func (p *pair) idle(ctx context.Context, res *Result) error {
	if p.Idle > 0 && p.Rank == 0 {
		versus.Settle(p.idleTime())
		used := versus.OwnCPU()
		<-clock.NewTimer(p.idleTime()).C
		res.IdleCPU = float64(versus.OwnCPU() - used)
	}
	_, err := p.swap(ctx, 0) // neither leaves before the other is ready
	return err
}

// allreduce times calls of float32.
func (j *Job) allreduce(ctx context.Context, g *launch.Group) (*Result, error) {
	c, err := coll.New(coll.Config{Endpoint: g.Endpoint, Rank: g.Rank, Peers: g.Peers})
	if err != nil {
		return nil, err
	}
	n := max(j.Size/4, 1)
	in, err := coll.Alloc[float32](c, n)
	if err != nil {
		return nil, err
	}
	out, err := coll.Alloc[float32](c, n)
	if err != nil {
		return nil, err
	}
	for i := range in {
		in[i] = float32(i % 7)
	}
	calls := func(n int) error {
		for range n {
			if err := coll.Allreduce(ctx, c, in, out, coll.Sum[float32]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := errors.Join(calls(j.Warm), coll.Barrier(ctx, c)); err != nil {
		return nil, err
	}
	began := clock.System.Now()
	if err := calls(j.Count); err != nil {
		return nil, err
	}
	took := []int64{int64(clock.System.Now().Sub(began))}
	slowest := []int64{0}
	if err := coll.Allreduce(ctx, c, took, slowest, coll.Max[int64]); err != nil {
		return nil, err
	}
	for i := range out {
		if want := float32(g.Size) * in[i]; out[i] != want {
			return nil, fmt.Errorf("element %d is %g, not %g", i, out[i], want)
		}
	}
	if err := errors.Join(coll.Free(c, in), coll.Free(c, out), c.Close(ctx)); err != nil || g.Rank != 0 {
		return nil, err
	}
	return &Result{Nanos: float64(slowest[0]) / float64(max(j.Count, 1))}, nil
}
