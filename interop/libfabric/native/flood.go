package native

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

// flood is a party.Flood under way.
type flood struct {
	party.Flood
	n    *Node
	p    *party.Pending
	once sync.Once
	bad  chan struct{} // closed by the first failure
	err  error
}

// Flood implements party.Party.
func (n *Node) Flood(ctx context.Context, f party.Flood) (*party.Pending, error) {
	l, err := n.open()
	if err != nil {
		return nil, err
	}
	p := party.NewPending(0, party.Op{})
	fl := &flood{Flood: f, n: n, p: p, bad: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.ended.Go(func() {
		defer cancel()
		var both sync.WaitGroup
		both.Go(func() { fl.send(ctx) })
		both.Go(func() { fl.receive(ctx) })
		ended := make(chan struct{})
		go func() { both.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-fl.bad: // others may wait for messages that will never arrive
		}
		select {
		case <-fl.bad:
			p.Resolve(party.Outcome{Errno: otherError, Text: fl.err.Error()}, nil)
		default:
			p.Resolve(party.Outcome{}, nil)
		}
		cancel()
		<-ended
	})
	return p, nil
}

func (f *flood) fail(format string, args ...any) {
	f.once.Do(func() {
		f.err = fmt.Errorf(format, args...)
		close(f.bad)
	})
}

// window lets a step begin when the one that is Window before it has ended.
type window []chan struct{}

func (w window) begin(ctx context.Context, bad <-chan struct{}, k int) (end func(), ok bool) {
	i := k % len(w)
	if before := w[i]; before != nil {
		select {
		case <-before:
		case <-bad:
			return nil, false
		case <-ctx.Done():
			return nil, false
		}
	}
	done := make(chan struct{})
	w[i] = done
	return func() { close(done) }, true
}

// drain waits for the last ones.
func (w window) drain() {
	for _, done := range w {
		if done != nil {
			<-done
		}
	}
}

// send performs this side's planned operations, in the plan's order.
func (f *flood) send(ctx context.Context) {
	w := make(window, f.Window)
	defer w.drain()
	for k := range f.N {
		plan := party.MakePlan(f.Seed, uint64(k), f.Max, f.Inject)
		rma := plan.What == party.PlanWrite || plan.What == party.PlanAdd
		if rma && !f.RMA {
			continue
		}
		end, ok := w.begin(ctx, f.bad, k)
		if !ok {
			return
		}
		p, err := f.n.Start(ctx, f.planned(plan, k))
		if err != nil {
			f.fail("operation %d: %w", k, err)
			end()
			return
		}
		go func() {
			defer end()
			out, err := p.Wait(ctx)
			if err = errors.Join(err, out.Err()); err == nil && plan.What == party.PlanWrite {
				err = f.readBack(ctx, plan, k)
			}
			if err != nil {
				f.fail("operation %d (%v): %w", k, p.Op, err)
			}
		}()
	}
}

// place is where operation k writes.
func (f *flood) place(k, size int) party.Remote { return f.At.Slice(k%f.Window*f.Max, size) }

func (f *flood) planned(plan party.Plan, k int) party.Op {
	op := party.Op{
		Peer: f.Peer, Size: plan.Size, Seed: plan.Seed, Pieces: plan.Pieces, Registered: plan.Registered,
	}
	switch plan.What {
	case party.PlanWrite:
		op.Kind, op.At, op.Level = party.Write, f.place(k, plan.Size), party.Delivered
	case party.PlanAdd:
		op = party.Op{
			Kind: party.Fetch, Peer: f.Peer, At: f.At.Slice(f.Window*f.Max, 8), Type: uint64Type, AtomicOp: sumOp, Count: 1,
			Operand: binary.LittleEndian.AppendUint64(nil, uint64(k)+1), Registered: plan.Registered,
		}
	default:
		op.Kind, op.Tagged, op.Tag = party.Send, plan.What == party.PlanTagged, f.tag(k)
		op.HasData, op.Data, op.Inject = plan.HasData, plan.Data, plan.Inject
		if plan.Delivered {
			op.Level = party.Delivered
		}
	}
	return op
}

func (f *flood) tag(k int) uint64 { return uint64(f.Number)<<48 | uint64(k) }

func (f *flood) readBack(ctx context.Context, plan party.Plan, k int) error {
	p, err := f.n.Start(ctx, party.Op{
		Kind: party.Read, Peer: f.Peer, At: f.place(k, plan.Size), Size: plan.Size, Pieces: plan.Pieces,
		Registered: plan.Registered,
	})
	if err != nil {
		return err
	}
	out, err := p.Wait(ctx)
	return errors.Join(err, out.Err(), out.Content.Whole(plan.Seed, plan.Size))
}

// receive takes the peer's planned messages.
func (f *flood) receive(ctx context.Context) {
	w := make(window, f.Window)
	defer w.drain()
	posted := 0
	for k := range f.PeerN {
		plan := party.MakePlan(f.PeerSeed, uint64(k), f.Max, f.Inject)
		if plan.What != party.PlanMessage && plan.What != party.PlanTagged {
			continue
		}
		end, ok := w.begin(ctx, f.bad, posted)
		if !ok {
			return
		}
		posted++
		tagged := plan.What == party.PlanTagged
		p, err := f.n.Start(ctx, party.Op{
			Kind: party.Recv, Peer: f.Peer, Directed: !tagged || plan.Seed%2 == 1, Tagged: tagged, Tag: f.tag(k),
			Size: plan.Size + plan.Seed, Pieces: min(plan.Pieces, 2), Registered: !plan.Registered,
		})
		if err != nil {
			f.fail("receive %d: %w", k, err)
			end()
			return
		}
		go func() {
			defer end()
			out, err := p.Wait(ctx)
			if err = errors.Join(err, f.received(out, plan)); err != nil {
				f.fail("receive %d of %d bytes: %w", k, plan.Size, err)
			}
		}()
	}
}

func (f *flood) received(out party.Outcome, plan party.Plan) error {
	switch {
	case out.Errno != 0:
		return out.Err()
	case out.N != plan.Size:
		return fmt.Errorf("%d bytes came", out.N)
	case out.HasData != plan.HasData || (plan.HasData && out.Data != plan.Data):
		return fmt.Errorf("data %#x (%t) instead of %#x (%t)", out.Data, out.HasData, plan.Data, plan.HasData)
	}
	return out.Content.Whole(plan.Seed, plan.Size)
}

// Operand of the counter's updates.
const (
	uint64Type = wire.DatatypeUint64
	sumOp      = wire.OpSum
)
