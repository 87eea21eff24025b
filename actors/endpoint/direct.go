package endpoint

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/direct"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// An endpoint without the protocol (efa-direct) has a direct.Port in place of peers, operations
// and matcher. Requests, reports of peers' writes and closing are those of any endpoint.

// retryForever is the RNR retry count of the device that means no limit.
const retryForever = 7

// setDirect has the device resend for ever unless the caller says otherwise, as libfabric
// does, since there is no protocol that sends again.
func (c *Config) setDirect() error {
	if c.Device.Devices() != nil {
		return fmt.Errorf("%w: Direct on %s: receives would have to be posted to several devices", errno.ErrNotSupported, c.Device.Info().Name)
	}
	if c.Settings.RNRRetry == 0 {
		c.Settings.RNRRetry = retryForever
	}
	return nil
}

// newDirectPort makes the port of an endpoint that is being opened.
func newDirectPort(e *Endpoint) *direct.Port {
	return direct.New(direct.Config{
		Shard: e.cfg.Shard, Device: e.cfg.Device, Datagram: e.cfg.Datagram, Book: e.cfg.Book, Regions: e.cfg.Regions, News: e.cfg.News,
		Log: e.cfg.Log, Trail: e.cfg.Trail, Tally: &e.pools.Tally,
		Reject: e.reject, Written: func(h uint64, from *wire.RawAddr, n int, data uint64) { e.writes.addFrom(h, from, n, data) },
		Gone: func(h uint64, from *wire.RawAddr, left bool) {
			err := peer.ErrDied
			if left {
				err = peer.ErrLeft
			}
			e.cfg.OnEvent(Event{Kind: endKind(err), Handle: h, Addr: *from, Err: err})
		},
		Refused: func(h uint64, from *wire.RawAddr) {
			e.env.Counters.Refused++
			e.cfg.OnEvent(Event{Kind: AccessRefused, Handle: h, Addr: *from, Err: errDevice})
		},
		Fatal: func(m *device.Fatal) { e.cfg.Shard.Tell(e.ref, m) },
	})
}

// startDirect is start without the protocol.
func (e *Endpoint) startDirect() {
	sh := e.cfg.Shard
	e.pressure.off = true
	e.port.Start(e.queue, sh.SpawnChild(e.ctx, "port", func() actor.Actor { return e.port }))
	e.qref = sh.SpawnChild(e.ctx, "queue", func() actor.Actor { return e.queue })
	e.polls = sh.AddPoller(e.ref, e.poller())
	sh.AddPoller(e.qref, e.queue)
}

// poller is the endpoint as the shard polls it.
func (e *Endpoint) poller() shard.Poller {
	if e.port != nil {
		return directPoller{e}
	}
	return e
}

// directPoller is the endpoint as it is polled without the protocol.
type directPoller struct{ *Endpoint }

// Poll takes requests from the application.
func (p directPoller) Poll(*shard.Shard) int {
	e := p.Endpoint
	if e.closing.state == stopped {
		return 0
	}
	n := 0
	if e.unqueued.Kind != 0 { // what is in the ring came later
		n++
		e.handling = true
		e.handleDirect(&e.unqueued)
		e.handling = false
		e.unqueued.Forget()
	}
	for r := e.reqs.Peek(); r != nil && n < batch; r = e.reqs.Peek() {
		n++
		e.handling = true
		e.handleDirect(r)
		e.handling = false
		e.drop(r)
	}
	return n
}

func (e *Endpoint) handleDirect(r *ope.Request) {
	switch {
	case r.Flags&ope.HasGeneration != 0 && e.outdated(r):
		e.reject(r, peer.ErrRemoved)
	case r.Kind == ope.KindNone: // it was given up
	case !e.port.Handle(r):
		r.More.Run()
	}
}

// Flush ends a turn.
func (p directPoller) Flush(sh *shard.Shard) {
	p.port.Flush()
	p.Endpoint.Flush(sh)
}
