package agent

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// Start implements party.Party.
func (a *Agent) Start(ctx context.Context, op party.Op) (*party.Pending, error) {
	p := party.NewPending(a.lastID.Add(1), op)
	a.mu.Lock()
	if a.finished != nil {
		a.mu.Unlock()
		return nil, a.finished
	}
	a.pending[p.ID] = p
	a.mu.Unlock()
	if _, err := a.proc.call(ctx, command(p)); err != nil {
		a.forget(p)
		return nil, err
	}
	if op.Inject && op.Level == party.Default { // there will be no completion
		a.forget(p)
		p.Resolve(party.Outcome{N: op.Size, Content: party.Content{Seed: -1, Bad: -1, Over: -1}, From: party.NoPeer}, nil)
	}
	return p, nil
}

func (a *Agent) forget(p *party.Pending) {
	a.mu.Lock()
	delete(a.pending, p.ID)
	a.mu.Unlock()
}

// Cancel implements party.Party.
func (a *Agent) Cancel(ctx context.Context, p *party.Pending) error {
	_, err := a.proc.call(ctx, fmt.Sprintf("cancel id=%d", p.ID))
	return err
}

// Flood implements party.Party.
func (a *Agent) Flood(ctx context.Context, f party.Flood) (*party.Pending, error) {
	p := party.NewPending(a.lastID.Add(1), party.Op{})
	a.mu.Lock()
	a.pending[p.ID] = p
	a.mu.Unlock()
	var l line
	l.verb("flood")
	l.uint("id", p.ID)
	l.num("number", f.Number)
	l.num("peer", int(f.Peer))
	l.uint("seed", f.Seed)
	l.uint("peerseed", f.PeerSeed)
	l.num("n", f.N)
	l.num("peern", f.PeerN)
	l.num("window", f.Window)
	l.num("max", f.Max)
	l.num("inject", f.Inject)
	l.flag("rma", f.RMA)
	l.at(f.At)
	if _, err := a.proc.call(ctx, l.String()); err != nil {
		a.forget(p)
		return nil, err
	}
	return p, nil
}

func (l *line) at(r party.Remote) {
	l.uint("addr", r.Addr)
	l.uint("key", r.Key)
}

var levels = [...]string{
	party.Injected: "inject", party.Transmitted: "transmit", party.Delivered: "deliver", party.Matched: "match",
}

// command is the line for an operation.
func command(p *party.Pending) string {
	op := p.Op
	var l line
	verb := op.Kind.String()
	switch op.Kind {
	case party.Send, party.Recv:
		if op.Tagged {
			verb = "t" + verb
		}
	case party.Peek, party.Claim, party.Take, party.Discard:
		verb = "trecv"
	case party.Write, party.Read, party.Atomic, party.Fetch, party.Compare:
	}
	l.verb(verb)
	l.uint("id", p.ID)
	l.num("size", op.Size)
	l.when(op.Pieces > 1, func() { l.num("pieces", op.Pieces) })
	l.flag("registered", op.Registered)
	switch op.Kind {
	case party.Recv, party.Peek, party.Claim, party.Take, party.Discard:
		l.receive(op)
	default:
		l.send(op)
	}
	return l.String()
}

func (l *line) receive(op party.Op) {
	l.when(op.Directed, func() { l.num("peer", int(op.Peer)) })
	l.uint("tag", op.Tag)
	l.uint("ignore", op.Ignore)
	l.flag("peek", op.Kind == party.Peek || op.Kind == party.Claim || op.Kind == party.Discard)
	l.flag("claim", op.Kind == party.Claim || op.Kind == party.Take)
	l.flag("discard", op.Kind == party.Discard)
	l.when(op.Of != nil, func() { l.uint("of", op.Of.ID) })
}

func (l *line) send(op party.Op) {
	l.num("peer", int(op.Peer))
	l.num("seed", op.Seed)
	l.when(op.Tagged, func() { l.uint("tag", op.Tag) })
	l.when(op.HasData, func() { l.uint("data", op.Data) })
	l.flag("inject", op.Inject)
	l.when(op.Level != party.Default, func() { l.text("level", levels[op.Level]) })
	l.when(op.Kind != party.Send, func() { l.at(op.At) })
	l.when(op.RemotePieces > 1, func() { l.num("rpieces", op.RemotePieces) })
	l.when(op.Operand != nil, func() { l.bytes("operand", op.Operand) })
	l.when(op.Compare != nil, func() { l.bytes("compare", op.Compare) })
	l.when(op.Count > 0, func() {
		l.num("type", int(op.Type))
		l.num("op", int(op.AtomicOp))
		l.num("count", op.Count)
	})
}
