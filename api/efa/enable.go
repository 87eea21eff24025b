package efa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/settings"
)

// Enable opens the endpoint on its device and gives it an address. A failure, for
// instance since the QPN is in use, leaves nothing behind: it may be tried again.
func (e *Endpoint) Enable(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch e.state.Load() {
	case disabled:
	case closed:
		return fmt.Errorf("%w: Enable of a closed endpoint", ErrClosed)
	default:
		return fmt.Errorf("%w: the endpoint is enabled already", ErrBadState)
	}
	if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	id := settings.Knobs(&e.cfg.Protocol).ConnID
	for id == 0 {
		id = randomConnID(e.dom)
	}
	info := e.dom.fab.dev.Info()
	act, err := endpoint.Open(endpoint.Config{
		Shard: e.sh, Device: e.dom.fab.dev, Book: book{e.cfg.AV}, Regions: &e.dom.regions, Plain: e.dom.plain,
		ConnID: id, QPN: e.cfg.QPN, Settings: settings.New(e.cfg.Protocol, &info),
		OnEvent: e.events.on, OnWritten: e.onWritten, WrittenRoom: e.writtenRoom, OnFlush: e.onFlush, OnEnd: e.onEnd,
		Log: e.log, Trail: e.follow(),
	})
	if err != nil {
		e.unfollow(false)
		return fmt.Errorf("efa: enable: %w", err)
	}
	e.act = act
	e.state.Store(enabled)
	return nil
}

// randomConnID draws a connid: libfabric's are 31 bits, not 0.
func randomConnID(d *Domain) uint32 {
	if env := d.fab.dev.Environment(); env != nil {
		return env.Random() & 0x7fffffff
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint32(b[:]) & 0x7fffffff
}
