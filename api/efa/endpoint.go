package efa

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/runtime/shard"
)

// Endpoint talks to other endpoints (fi_endpoint). All methods may be called by
// any number of goroutines. It is created disabled.
type Endpoint struct {
	*core
	def settings // what With made of the defaults
}

// core is what all views of an endpoint share.
type core struct {
	dom *Domain
	cfg EndpointConfig
	sh  *shard.Shard
	log *slog.Logger
	act *endpoint.Endpoint // set by Enable

	state   atomic.Uint32
	mu      sync.Mutex // guards the changes of state
	ended   bool       // Close is done
	closers []*shard.Signal
	lastID  atomic.Uint64
	spare   atomic.Pointer[call] // of the last blocking operation
	tx, rx  credits
	sendTo  *source
	recvTo  *source
	events  events

	injectTo   ope.Sink
	mostInject int // bytes

	tele *telemetry.Source // nil: nobody observes; set by Enable
	last *telemetry.Sample // of the counters, when it has ended
}

// The states of an endpoint, in their order.
const (
	disabled uint32 = iota
	enabled
	draining // Shutdown waits for sends, there are no new ones
	closed
)

// NewEndpoint makes an endpoint, disabled: Enable gives it an address.
func (d *Domain) NewEndpoint(cfg EndpointConfig) (*Endpoint, error) {
	if err := cfg.check(d); err != nil {
		return nil, err
	}
	if err := d.enter(&d.open); err != nil {
		return nil, err
	}
	c := &core{dom: d, cfg: cfg, sh: d.shard(), log: d.fab.log}
	c.injectTo, c.mostInject = injected{c}, maxInject(d.fab.dev.Info().MTU)
	c.tx.init(cfg.TxDepth, 1024)
	c.rx.init(cfg.RxDepth, 16384)
	c.events.init(cfg.EventBacklog)
	if err := c.bind(); err != nil {
		c.unbind()
		return nil, err
	}
	return &Endpoint{core: c, def: settings{level: cfg.Level, from: AnyAddr}}, nil
}

// bind enters the endpoint where others must know of it. After a failure unbind
// takes it out again.
func (c *core) bind() (err error) {
	c.dom.add(c)
	for _, n := range c.cfg.counters() {
		n.bind(c.sh)
	}
	if err := c.cfg.AV.bind(c); err != nil {
		return err
	}
	if q := c.cfg.SendQueue; q != nil {
		if c.sendTo, err = q.bind(c); err != nil {
			return err
		}
	}
	if q := c.cfg.RecvQueue; q != nil {
		if c.recvTo, err = q.bind(c); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) unbind() {
	c.cfg.AV.unbind(c)
	for _, q := range []*Queue{c.cfg.SendQueue, c.cfg.RecvQueue} {
		if q != nil {
			q.unbind(c)
		}
	}
	for _, n := range c.cfg.counters() {
		n.unbind()
	}
	c.dom.remove(c)
	c.dom.leave(&c.dom.open)
}

// Address is where others reach the endpoint, with a path for each of the fabric's
// devices; the zero Address before Enable.
func (e *Endpoint) Address() Address {
	if e.state.Load() == disabled || e.act == nil {
		return Address{}
	}
	raws := e.act.Addrs()
	a := Address{make([]path, len(raws))}
	for i, raw := range raws {
		a.paths[i] = path{e.dom.fab.paths[i].scheme, raw}
	}
	return a
}

// Domain is the endpoint's.
func (e *Endpoint) Domain() *Domain { return e.dom }

// SendQueue is where posted sends complete; nil if there is none.
func (e *Endpoint) SendQueue() *Queue { return e.cfg.SendQueue }

// RecvQueue is where posted receives complete; nil if there is none.
func (e *Endpoint) RecvQueue() *Queue { return e.cfg.RecvQueue }

// With returns a view of the endpoint with other defaults for its operations,
// blocking and posted (fi_ep_alias). A view holds no resources: to close it is to
// close the endpoint.
func (e *Endpoint) With(opts ...OpOption) *Endpoint {
	v := &Endpoint{core: e.core, def: e.def}
	v.def.apply(opts)
	return v
}

// Close ends the endpoint: every operation in progress ends with ErrClosed, and
// nothing touches its buffer afterwards. Peers see what was under way fail, but those
// that wait to hear that all of their operation has arrived here are told so yet, for
// which Close takes a second at most. Close is idempotent, and returns when the
// endpoint has ended, whoever closed it.
func (e *Endpoint) Close() error { return e.close(context.Background()) }

func (c *core) close(ctx context.Context) error {
	c.mu.Lock()
	was := c.state.Swap(closed)
	if was == closed {
		return c.awaitEnd(ctx) // unlocks
	}
	c.mu.Unlock()
	c.tx.close() // who waits for a place must not get one that is freed now
	c.rx.close()
	var err error
	if was == enabled || was == draining {
		err = c.act.Close(ctx)
		c.unfollow(err == nil)
		if errors.Is(err, shard.ErrClosed) {
			err = nil
		}
	}
	c.events.close()
	c.unbind()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, sig := range c.closers {
		sig.Set()
	}
	return err
}

// awaitEnd waits until somebody else's Close is done. It unlocks mu.
func (c *core) awaitEnd(ctx context.Context) error {
	if c.ended {
		c.mu.Unlock()
		return nil
	}
	sig := new(shard.Signal)
	c.closers = append(c.closers, sig)
	c.mu.Unlock()
	if err := c.sh.Wait(ctx, sig); err != nil && !errors.Is(err, shard.ErrClosed) {
		return err
	}
	return nil
}

// Shutdown waits until all sends, writes, reads and atomics that were accepted have
// ended, then closes the endpoint; new ones get ErrClosed meanwhile. If ctx ends
// first it closes without that and returns ctx's error.
func (e *Endpoint) Shutdown(ctx context.Context) error {
	e.state.CompareAndSwap(enabled, draining)
	err := e.tx.idle(ctx, e.sh)
	return errors.Join(err, e.Close())
}

// flusher is onFlush if there is anything to publish.
func (c *core) flusher() func() {
	if c.sendTo == nil && c.recvTo == nil {
		return nil
	}
	return c.onFlush
}

// onFlush runs on the shard at the end of a turn.
func (c *core) onFlush() {
	if c.sendTo != nil {
		c.sendTo.publish()
	}
	if c.recvTo != nil && c.recvTo != c.sendTo {
		c.recvTo.publish()
	}
}
