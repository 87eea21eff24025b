package efa

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
)

// Memory is memory of a peer, as one endpoint reaches it: a handle, made by
// [Endpoint.Memory] at no cost and copied at will. It holds nothing and needs no Close.
type Memory struct {
	ep *Endpoint
	to Addr
	at Remote
}

// Memory is the memory at that the peer to has sent the name of.
func (e *Endpoint) Memory(to Addr, at Remote) Memory { return Memory{e, to, at} }

// Slice is the n bytes from offset off on, or as many of them as there are.
func (m Memory) Slice(off, n uint64) Memory { return Memory{m.ep, m.to, m.at.Slice(off, n)} }

// Write puts p at the beginning of the memory, which must have AccessRemoteWrite, and
// returns when p may be used again. The memory may be longer than p; shorter, the error
// is ErrInvalid. Writes have no order with anything else, unless [Fence] or [Order] gives them
// one, and the peer's program hears of those only that carry [Data].
//
// With the level Transmitted a write that fits a packet has only reached the peer's
// device when it completes. If the peer then finds that the memory is not there, or
// not to be written, nobody but the peer hears of it ([AccessRefused]). Complete
// with Delivered to know: then everybody there sees the data, or the error is
// ErrAccess. A libfabric peer, and all until after release 2.6, refuses in silence;
// then the error is ErrTimedOut after PeerTimeout. Where the devices write by
// themselves both levels are the same.
//
// If ctx ends first, the write ends with that; some of the bytes may have been
// written.
func (m Memory) Write(ctx context.Context, p []byte, opts ...OpOption) error {
	var w wishes
	if !w.read(opts) {
		return m.ep.refused(ope.KindWrite, m.to, w.err())
	}
	r := WriteReq{
		To: m.to, At: m.at, Buf: p, HasData: w.has(optData), Data: w.values[optData],
		Inject: w.has(optInject), Level: w.level(), Fence: w.has(optFence), Token: w.values[optToken],
	}
	var req ope.Request
	if err := m.ep.writeRequest(&req, &r); err != nil {
		return m.ep.refused(ope.KindWrite, m.to, err)
	}
	if err := m.ep.run(ctx, &req); err != nil {
		return m.ep.refused(ope.KindWrite, m.to, err)
	}
	return nil
}

// Read fills p from the beginning of the memory, which must have AccessRemoteRead. It may
// be longer than p; shorter, the error is ErrInvalid. Reads have no order with anything
// else, see Write; of the options only Fence means something. A peer that refuses says so, and the error is ErrAccess; for peers that have no
// word for it see [Memory.Write].
//
// If ctx ends first, or after an error, p has anything in it.
func (m Memory) Read(ctx context.Context, p []byte, opts ...OpOption) error {
	var w wishes
	if !w.read(opts) {
		return m.ep.refused(ope.KindRead, m.to, w.err())
	}
	var req ope.Request
	if err := m.ep.readRequest(&req, &ReadReq{From: m.to, At: m.at, Buf: p, Fence: w.has(optFence)}); err != nil {
		return m.ep.refused(ope.KindRead, m.to, err)
	}
	if err := m.ep.made(ctx, &req, &m.ep.tx, nil); err != nil {
		return m.ep.refused(ope.KindRead, m.to, err)
	}
	return nil
}
