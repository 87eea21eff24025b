package efa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// Enable opens the endpoint on its device and gives it an address. A failure, for
// instance since the QPN is in use, leaves nothing behind: it may be tried again.
func (e *Endpoint) Enable(ctx context.Context) error {
	c := e.core
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state.Load() {
	case disabled:
	case closed:
		return fmt.Errorf("%w: Enable of a closed endpoint", ErrClosed)
	default:
		return fmt.Errorf("%w: the endpoint is enabled already", ErrBadState)
	}
	if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	p := &c.cfg.Protocol
	id := p.ConnID
	for id == 0 {
		id = randomConnID(c)
	}
	info := c.dom.fab.dev.Info()
	policy := ope.Policy{
		MaxMedium: p.MaxMedium, MinRead: p.MinRead, MinReadWrite: p.MinReadWrite, ReadSegment: p.ReadSegment,
		RuntSize: p.RuntSize, Credits: p.Credits, Rounding: p.Rounding,
		NoRDMARead: p.NoRDMARead, NoRDMAWrite: p.NoRDMAWrite,
	}
	talk, _ := era.ByName(p.Era) // checked by NewEndpoint; "" is nobody's, and ours
	act, err := endpoint.Open(endpoint.Config{
		Shard: c.sh, Device: c.dom.fab.dev, Book: book{c.cfg.AV}, Regions: &c.dom.regions,
		ConnID: id, QPN: c.cfg.QPN, SQ: p.SendQueue, RQ: p.RecvQueue, RNRRetry: rnrRetry(p.RNRRetry),
		DetachLimit: p.DetachLimit,
		Policy:      policy,
		Peer: peer.Config{
			RecvWindow: p.RecvWindow, MsgIDBase: p.FirstMsgID, RNRInitial: p.RNRInitial, RNRMax: p.RNRMax,
			ProbeAfter: p.ProbeAfter, PeerTimeout: p.PeerTimeout, PeerMemory: p.PeerMemory,
			TotalMemory: p.TotalMemory, Features: policy.Features(&info), HostID: p.HostID,
			Homogeneous: p.Homogeneous, Era: talk, WaitHandshake: p.WaitHandshake,
		},
		OnEvent: c.onEvent, OnWritten: c.onWritten, WrittenRoom: c.writtenRoom, OnKept: c.onKept, OnFlush: c.flusher(), OnEnd: c.onEnd,
		Log: c.log, Trail: c.follow(),
	})
	if err != nil {
		c.unfollow(false)
		return fmt.Errorf("efa: enable: %w", err)
	}
	c.act = act
	c.state.Store(enabled)
	return nil
}

// randomConnID draws a connid: libfabric's are 31 bits, not 0.
func randomConnID(c *core) uint32 {
	if env, ok := environmentOf(c.dom.fab.dev); ok {
		return env.Random() & 0x7fffffff
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint32(b[:]) & 0x7fffffff
}

func rnrRetry(n int) uint8 {
	switch {
	case n == 0:
		return 3
	case n < 0:
		return 0
	default:
		return uint8(n)
	}
}
