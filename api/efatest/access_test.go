package efatest_test

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// reach begins an access, if it can be made.
func (n *node) reach(ctx context.Context, a *access) error {
	r, s := n.run, a.store
	r.sent++
	switch {
	case s.region == nil, s.closing, r.cast[a.to].closed,
		a.kind == write && a.slot != nil && a.slot.Open(), // the write before is not known to be there
		!r.risk(a):
		r.stats["access skipped"]++
		a.failed = true
		return nil
	}
	r.w.Logf("%v, style %d", a, a.style)
	d := &deed{what: a, to: a.to, style: a.style, timeout: a.timeout, began: r.w.Elapsed(), ask: func() {}}
	if a.kind == update {
		return n.reachCells(ctx, a, d)
	}
	buf := n.take(a.n, a.mem)
	if a.mem == doomed {
		n.closeLater(buf, soon(a.id))
	}
	asked := 0
	if a.kind == write {
		model.Fill(buf.b, a.id)
		d.ask = a.writing(n)
	} else {
		d.ask = func() { asked, a.after = r.tick(), n.behind(a.to, a.fence, efa.ReadAfterWrite) }
	}
	d.outcome = func(d *deed, err error) {
		n.reached(d, a, err)
		if a.kind == read && err == nil && a.slot != nil {
			if err := a.slot.Judge(buf.b, a.off, asked, r.tick()); err != nil {
				r.fail("%v by %v: %w", a, d.protocol, err)
			}
		}
	}
	d.release = func() { n.give(buf) }
	switch a.style {
	case posted, started:
		return n.post(ctx, d, a.request(n, d, buf.b))
	case injected:
		n.inject(ctx, d, func(ctx context.Context) error { return n.reachNow(ctx, a, buf.b, efa.Inject, efa.Token(n.token(d))) })
	default:
		n.block(ctx, d, func(ctx context.Context) error { return n.reachNow(ctx, a, buf.b) })
	}
	return nil
}

// soon is after how long memory is closed under an operation.
func soon(id int) time.Duration { return time.Duration(id%100) * time.Microsecond }

// writing notes, once, that a write is on its way.
func (a *access) writing(n *node) func() {
	begun := false
	return func() {
		now := n.run.tick()
		if !begun {
			a.after = n.behind(a.to, a.fence, efa.WriteAfterWrite)
		}
		if a.slot == nil || a.wrong != right || begun {
			return
		}
		begun = true
		a.slot.Write(a.id, now)
		n.wrote = append(n.wrote, a)
	}
}

// at names the memory, or what the target must refuse.
func (a *access) remote(p *plan) efa.Remote {
	whole := a.store.region.Remote()
	if a.wrong == right && a.id%4 == 0 {
		whole = efa.KeyRemote(a.store.key, whole.Len())
	}
	n := uint64(a.n)
	switch {
	case a.wrong == wrongRange && (a.n > p.requestSize(a.from) || a.pieces > 1): // what is in range would be written
		return falsify(whole, whole.Len(), n, 0)
	case a.wrong == wrongKey:
		return falsify(whole, 0, max(whole.Len(), n), 1<<(a.id%32))
	case a.wrong == wrongRange && a.id%2 == 0: // the last byte is beyond
		return falsify(whole, uint64(len(a.store.mem)-a.n)+1, n, 0)
	case a.wrong == wrongRange:
		return falsify(whole, ^uint64(0), n, 0)
	case a.slot != nil:
		return whole.Slice(uint64(a.slot.at+a.off), uint64(a.n))
	case a.cells != nil:
		return whole.Slice(uint64(a.store.cells.at+a.off), uint64(a.n))
	}
	return falsify(whole, 0, max(whole.Len(), n), 0) // else it would be refused here
}

// falsify is r with other addresses, another length and other keys, on every path.
func falsify(r efa.Remote, by, n, mask uint64) efa.Remote {
	b, err := r.MarshalBinary()
	if err != nil {
		panic(err)
	}
	le := binary.LittleEndian
	le.PutUint64(b[8:], n)
	for x := b[16:]; len(x) > 0; x = x[32:] {
		le.PutUint64(x[16:], le.Uint64(x[16:])+by)
		le.PutUint64(x[24:], le.Uint64(x[24:])^mask)
	}
	if err := r.UnmarshalBinary(b); err != nil {
		panic(err)
	}
	return r
}

func (a *access) request(n *node, d *deed, b []byte) efa.Request {
	whole := b
	var cut [][]byte
	if a.pieces > 1 {
		cut, b = pieces(b, a.pieces), nil
	}
	to, at := n.handle(a.to), a.remote(n.run.p)
	var ats []efa.Remote
	if a.listed() > 0 {
		n.run.stats["access between lists"]++
		cut, ats = a.lists(at, whole)
		at, b = efa.Remote{}, nil
	}
	if a.kind == read {
		return &efa.ReadReq{From: to, At: at, Ats: ats, Buf: b, Bufs: cut, Fence: a.fence, Token: n.token(d)}
	}
	return &efa.WriteReq{
		To: to, At: at, Ats: ats, Buf: b, Bufs: cut, HasData: a.hasData, Data: a.data, Level: a.level,
		Fence: a.fence, Token: n.token(d),
	}
}

func (n *node) reachNow(ctx context.Context, a *access, b []byte, opts ...efa.OpOption) error {
	to := n.handle(a.to)
	if a.fence {
		opts = append(opts, efa.Fence)
	}
	if a.kind == read {
		return n.ep.Memory(to, a.remote(n.run.p)).Read(ctx, b, opts...)
	}
	if a.hasData {
		opts = append(opts, efa.Data(a.data))
	}
	if a.level > 0 {
		opts = append(opts, efa.Complete(a.level))
	}
	return n.ep.Memory(to, a.remote(n.run.p)).Write(ctx, b, opts...)
}
