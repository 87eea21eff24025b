package efa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/settings"
)

// Enable opens the endpoint on its device and gives it an address. A failure, for
// instance since the QPN is in use, leaves nothing behind: it may be tried again.
//
// After the event DeviceFailed it can be enabled again, if its device still opens queue
// pairs; a card that was reset or taken away wants a new Fabric. Every operation has had
// its outcome by then. The GID stays, the queue pair's number too unless the device chooses
// it (EFA), and the connid is new, since messages are counted anew: so the endpoint has a
// new Address, of which the event EnabledAgain tells, and which its peers must insert. The
// address vector, memory and queues are as they were, receives are to be posted again.
func (e *Endpoint) Enable(ctx context.Context) (err error) {
	defer formed("enable", &err)
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.act.Load()
	switch state := e.state.Load(); {
	case state == disabled:
	case state == closed:
		return fmt.Errorf("%w: the endpoint was closed", ErrClosed)
	case (state == enabled || state == mute) && was.Ended():
		return e.enableAgain(ctx, was)
	default:
		return fmt.Errorf("%w: the endpoint is enabled already", ErrBadState)
	}
	if err := ctx.Err(); err != nil {
		return contextError(ctx, err)
	}
	if err := e.enable(nil); err != nil {
		e.unfollow(false)
		e.tele = nil
		return err
	}
	e.state.Store(e.cfg.Initiate.begins())
	return nil
}

// enableAgain opens the endpoint after one that has ended. Others may call methods while it
// waits for that one's last outcome.
func (e *Endpoint) enableAgain(ctx context.Context, was *endpoint.Endpoint) error {
	e.mu.Unlock()
	err := endpoint.Await(ctx, was)
	e.mu.Lock()
	switch {
	case err != nil:
		return contextError(ctx, err)
	case e.state.Load() == closed:
		return fmt.Errorf("%w: the endpoint was closed meanwhile", ErrClosed)
	case e.act.Load() != was:
		return fmt.Errorf("%w: the endpoint was enabled again meanwhile", ErrBadState)
	}
	return e.enable(was)
}

// opened makes act the endpoint before anything can happen to it.
func (e *Endpoint) opened(act *endpoint.Endpoint, again bool) {
	e.act.Store(act)
	if again {
		e.inbox.renew()
		e.events.add(Event{Kind: EnabledAgain, Peer: NoAddr, Address: e.Address()})
	}
}

// enable opens the endpoint, after one that has ended if was is not nil.
func (e *Endpoint) enable(was *endpoint.Endpoint) error {
	id := e.cfg.Protocol.Knobs().ConnID
	for id == 0 && !e.cfg.Datagram { // which has none, as libfabric's have none

		id = e.dom.randomConnID()
	}
	info := e.dom.fab.dev.Info()
	protocol, refuse := e.cfg.Target.target(e.cfg.Protocol)
	force := settings.New(protocol, &info)
	force.Order, force.Unordered = e.cfg.Order, e.cfg.Unordered
	pool, sink := e.cfg.RecvPool.of(e)
	_, err := endpoint.Open(endpoint.Config{
		Shard: e.sh, Device: e.dom.fab.dev, Book: book{e.cfg.AV}, Regions: &e.dom.regions, Plain: e.dom.plain,
		UserRecv: e.cfg.ZeroCopyRecv, Pool: pool, PoolSink: sink,
		Direct: e.cfg.Direct, Datagram: e.cfg.Datagram, ConnID: id, QPN: e.cfg.QPN,
		After: was, Settings: force, Refuse: refuse,
		OnOpen:  func(act *endpoint.Endpoint) { e.opened(act, was != nil) },
		OnEvent: e.events.on, OnWritten: e.onWritten, WrittenRoom: e.writtenRoom, OnFlush: e.flusher(), OnEnd: e.onEnd,
		OnCounted: e.arrivals.counter(), OnServed: e.events.ofServed(&e.cfg), News: e.tellNews,
		Log: e.log, Trail: e.follow(),
	})
	if err != nil {
		if errors.Is(err, device.ErrNoMemory) {
			err = fmt.Errorf("%w: %w", ErrNoMemory, err)
		}
		return err
	}
	return nil
}

// randomConnID draws a connid: libfabric's are 31 bits, not 0.
func (d *Domain) randomConnID() uint32 {
	if env := d.fab.dev.Environment(); env != nil {
		return env.Random() & 0x7fffffff
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint32(b[:]) & 0x7fffffff
}
