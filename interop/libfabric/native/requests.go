package native

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// Start implements party.Party.
func (n *Node) Start(_ context.Context, op party.Op) (*party.Pending, error) {
	l, err := n.open()
	if err != nil {
		return nil, err
	}
	switch op.Kind {
	case party.Peek, party.Claim, party.Take, party.Discard:
		return n.peek(l, op)
	case party.Atomic, party.Fetch, party.Compare:
		return n.atomic(l, op)
	case party.Send, party.Recv, party.Write, party.Read:
	}
	b, err := n.buffer(op, op.Size)
	if err != nil {
		return nil, err
	}
	if op.Kind == party.Send || op.Kind == party.Write {
		b.Fill(op.Seed)
	}
	req, err := request(op, b)
	if err != nil {
		return nil, errors.Join(err, b.release())
	}
	p, err := n.post(l, op, req, func(c efa.Completion) party.Outcome {
		if op.Kind == party.Recv || op.Kind == party.Read {
			return outcome(c, b.Buffer)
		}
		return outcome(c, nil)
	}, b.release)
	if err != nil {
		return nil, errors.Join(err, b.release())
	}
	return p, nil
}

var levels = [...]efa.Level{
	party.Default: efa.Transmitted, party.Injected: efa.Transmitted, party.Transmitted: efa.Transmitted,
	party.Delivered: efa.Delivered, party.Matched: efa.Delivered,
}

func remoteOf(at party.Remote) efa.Remote { return efa.RawRemote(at.Addr, at.Len, at.Key) }

// request is op as package efa has it.
func request(op party.Op, b buffer) (efa.Request, error) {
	buf, bufs := b.parts()
	to, at := efa.Addr(op.Peer), remoteOf(op.At)
	var ats []efa.Remote
	if n := uint64(op.RemotePieces); n > 1 {
		for i := range n {
			from, end := at.Len()*i/n, at.Len()*(i+1)/n
			ats = append(ats, at.Slice(from, end-from))
		}
		at = efa.Remote{}
	}
	switch op.Kind {
	case party.Send:
		return &efa.SendReq{
			To: to, Buf: buf, Bufs: bufs, Tagged: op.Tagged, Tag: op.Tag, HasData: op.HasData, Data: op.Data,
			Inject: op.Inject, Level: levels[op.Level], Fence: op.Fence,
		}, nil
	case party.Recv:
		from := efa.AnyAddr
		if op.Directed {
			from = to
		}
		return &efa.RecvReq{
			From: from, Directed: op.Directed, Buf: buf, Bufs: bufs, Tagged: op.Tagged, Tag: op.Tag, Ignore: op.Ignore,
		}, nil
	case party.Write:
		return &efa.WriteReq{
			To: to, At: at, Ats: ats, Buf: buf, Bufs: bufs, HasData: op.HasData, Data: op.Data, Inject: op.Inject, Level: levels[op.Level],
			Fence: op.Fence,
		}, nil
	case party.Read:
		return &efa.ReadReq{From: to, At: at, Ats: ats, Buf: buf, Bufs: bufs, Fence: op.Fence}, nil
	default:
		return nil, fmt.Errorf("native: no request for %v", op.Kind)
	}
}

// post starts a request; say makes its outcome, after which its memory is released.
func (n *Node) post(l *life, op party.Op, req efa.Request, say func(efa.Completion) party.Outcome, release func() error) (*party.Pending, error) {
	started, err := l.ep.Start(req)
	if err != nil {
		return nil, err
	}
	p := party.NewPending(uint64(started.ID()), op)
	p.Own = started
	l.ended.Go(func() {
		c, _ := started.Wait(context.Background())
		out := say(c)
		p.Resolve(out, release())
	})
	return p, nil
}

// Cancel implements party.Party.
func (n *Node) Cancel(_ context.Context, p *party.Pending) error {
	if op, ok := p.Own.(*efa.Op); ok {
		op.Cancel()
	}
	return nil
}

// atomic starts an atomic of any form.
func (n *Node) atomic(l *life, op party.Op) (*party.Pending, error) {
	size := op.Count * op.Type.Size()
	var bufs [3]buffer // operand, old value, comparand
	release := func() (err error) {
		for _, b := range bufs {
			err = errors.Join(err, b.release())
		}
		return err
	}
	for i, from := range [][]byte{op.Operand, nil, op.Compare} {
		var err error
		if bufs[i], err = n.buffer(party.Op{Registered: op.Registered}, size); err != nil {
			return nil, errors.Join(err, release())
		}
		copy(bufs[i].Pieces[0], from)
	}
	req := &efa.AtomicReq{
		To: efa.Addr(op.Peer), At: remoteOf(op.At), Op: op.AtomicOp, Type: op.Type,
		Operand: bufs[0].Pieces[0], Inject: op.Inject, Level: levels[op.Level],
	}
	switch op.Kind {
	case party.Fetch:
		req.Form, req.Result = amo.Fetch, bufs[1].Pieces[0]
	case party.Compare:
		req.Form, req.Result, req.Compare = amo.Compare, bufs[1].Pieces[0], bufs[2].Pieces[0]
	default:
		req.Form = amo.Update
	}
	p, err := n.post(l, op, req, func(c efa.Completion) party.Outcome {
		out := outcome(c, nil)
		if req.Result != nil {
			out.Result = append([]byte{}, req.Result...)
			out.Content.Over = bufs[1].Inspect(size).Over
		}
		return out
	}, release)
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return p, nil
}
