package efatest_test

import (
	"context"
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/internal/model"
	"github.com/efactor/efactor/wire"
)

// reachCells begins an atomic.
func (n *node) reachCells(ctx context.Context, a *access, d *deed) error {
	r, x, c := n.run, a.cells, a.store.cells
	req := &efa.AtomicReq{
		At: a.remote(r.p), Op: x.op, Type: c.datatype(), Form: x.form, Operand: c.encode(x.operand),
		Level: a.level, Fence: a.fence, Token: n.token(d),
	}
	switch x.form {
	case amo.Compare:
		req.Compare = c.encode(x.comparand)
		fallthrough
	case amo.Fetch:
		req.Result = make([]byte, a.n)
		if x.op == amo.Read && a.id%2 == 0 {
			req.Operand = nil
		}
	}
	d.ask = func() { n.asking(a) }
	d.outcome = func(d *deed, err error) {
		n.reached(d, a, err)
		n.fetched(a, req.Result, err)
	}
	d.release = func() {}
	req.To = n.handle(a.to)
	if c.typ != 0 {
		r.stats["atomic "+c.typ.String()]++
	}
	switch a.style {
	case posted, started:
		return n.post(ctx, d, req)
	case injected:
		n.inject(ctx, d, func(ctx context.Context) error { return n.atomicNow(ctx, req, efa.Inject, efa.Token(req.Token)) })
	default:
		n.block(ctx, d, func(ctx context.Context) error { return n.atomicNow(ctx, req, efa.Complete(a.level)) })
	}
	r.stats["atomic "+[]string{"update", "fetch", "compare"}[x.form]]++
	return nil
}

// asking notes that an atomic may take effect from now on.
func (n *node) asking(a *access) {
	x, c, now := a.cells, a.store.cells, n.run.tick()
	if a.wrong != right {
		return
	}
	if x.steps != nil { // there was no room
		for _, h := range x.steps {
			h.call = now
		}
		return
	}
	for i := range x.count {
		h := &happening{
			Step: model.Step{Op: x.op, Bits: c.modelBits(), Operand: x.operand[i]}, from: a.from, to: a.to, call: now, end: never,
			injected: a.style == injected,
		}
		if x.form == amo.Compare {
			h.Compare = x.comparand[i]
		}
		x.steps = append(x.steps, h)
		c.history[x.first+i] = append(c.history[x.first+i], h)
	}
}

// fetched notes the values that an atomic found, and when it took effect at the
// latest. Earlier updates between the same two endpoints have then taken effect
// too: they are in order.
func (n *node) fetched(a *access, result []byte, err error) {
	x, c, now := a.cells, a.store.cells, n.run.tick()
	if err != nil {
		for _, h := range x.steps {
			h.end, h.canceled = never, errors.Is(err, efa.ErrCanceled)
			h.void = errors.Is(err, efa.ErrNotSupported) || errors.Is(err, device.ErrNoMemory) // nothing has gone out
		}
		return
	}
	if len(x.steps) == 0 {
		return
	}
	call := x.steps[0].call
	for i, h := range x.steps {
		h.end = atLast
		if a.heard() {
			h.end = now
		} else if a.store.closing || n.doomed {
			h.end = never // it may have come too late, or something before it not at all
		}
		if x.form != amo.Update {
			h.Fetches, h.Fetched = true, c.load(result[i*c.size():])
		}
	}
	if !a.heard() {
		n.unheard = append(n.unheard, a)
		return
	}
	keep := n.unheard[:0]
	for _, b := range n.unheard {
		if b.to != a.to || b.cells.steps[0].call > call {
			keep = append(keep, b)
			continue
		}
		for _, h := range b.cells.steps {
			if h.end == atLast {
				h.end = now
			}
		}
	}
	n.unheard = keep
}

// atomicNow makes a blocking call of an atomic.
func (n *node) atomicNow(ctx context.Context, r *efa.AtomicReq, opts ...efa.OpOption) error {
	switch r.Type {
	case wire.DatatypeUint8:
		return call[uint8](ctx, n, r, opts)
	case wire.DatatypeUint16:
		return call[uint16](ctx, n, r, opts)
	case wire.DatatypeUint32:
		return call[uint32](ctx, n, r, opts)
	default:
		return call[uint64](ctx, n, r, opts)
	}
}

func call[T uint8 | uint16 | uint32 | uint64](ctx context.Context, n *node, r *efa.AtomicReq, opts []efa.OpOption) error {
	operands, compares := decode[T](r.Operand), decode[T](r.Compare)
	cells := efa.NewCell[T](n.ep.Memory(r.To, r.At))
	switch r.Form {
	case amo.Update:
		return cells.Update(ctx, r.Op, operands, opts...)
	case amo.Fetch:
		results := decode[T](r.Result)
		err := cells.Fetch(ctx, r.Op, operands, results)
		encode(r.Result, results)
		return err
	default:
		err := cells.Compare(ctx, r.Op, compares, operands)
		encode(r.Result, compares)
		return err
	}
}

// decode reads little-endian integers.
func decode[T uint8 | uint16 | uint32 | uint64](b []byte) []T {
	size := wireSize[T]()
	var list []T
	for ; len(b) >= size; b = b[size:] {
		c := cells{bits: 8 * size}
		list = append(list, T(c.load(b)))
	}
	return list
}

// encode writes them back.
func encode[T uint8 | uint16 | uint32 | uint64](b []byte, list []T) {
	size := wireSize[T]()
	c := cells{bits: 8 * size}
	for i, v := range list {
		copy(b[i*size:], c.encode([]uint64{uint64(v)}))
	}
}

func wireSize[T uint8 | uint16 | uint32 | uint64]() int {
	var zero T
	_, t := efa.Elements([]T{zero})
	return t.Size()
}

func (c *cells) datatype() amo.Type {
	if c.typ != 0 {
		return c.typ
	}
	switch c.bits {
	case 8:
		return wire.DatatypeUint8
	case 16:
		return wire.DatatypeUint16
	case 32:
		return wire.DatatypeUint32
	default:
		return wire.DatatypeUint64
	}
}
