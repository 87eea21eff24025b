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
	"github.com/efactor/efactor/internal/errtext"
	"github.com/efactor/efactor/runtime/shard"
)

// Endpoint talks to other endpoints (fi_endpoint). All methods may be called by
// any number of goroutines. It is created disabled.
type Endpoint struct {
	dom        *Domain
	cfg        EndpointConfig
	state      atomic.Uint32
	mostInject int       // bytes
	usual      ope.Flags // of an operation that leaves here if its caller asks for nothing else

	// What operations take at their beginning, and outcomes give back.
	tx, rx credits
	av     *AddressVector // has the names of peers
	// Places that have become free since the last flush, in rows KindSend and KindRecv; the shard's, see flusher.
	free [freeRows]int64
	// plain is above the kinds that onlyPlace takes: 0 if there is something to count.
	plain                          ope.Kind
	sent, received, wrote, fetched *Counter // nil: they are not counted

	// Where completions go: the endpoint's place in each of its queues, or nil where it has
	// none. They may be the same.
	sendTo, recvTo *source

	tele *telemetry.Source // nil: the endpoint is not observed; set by Enable
	last *telemetry.Sample // of the counters, when it has ended

	sh       *shard.Shard
	act      atomic.Pointer[endpoint.Endpoint] // set by Enable, each time
	log      *slog.Logger
	lastID   atomic.Uint64
	spare    call // of goroutines that run the shard, see newCall
	injectTo ope.Sink
	arrivals *Arrivals // nil: the endpoint counts none
	news     news

	inbox  inbox // of Next
	events events

	mu      sync.Mutex // guards the changes of state
	ended   bool       // Close is done
	closers []*shard.Signal

	owned *owned // what OpenEndpoint made for it, or nil
}

// NewEndpoint makes an endpoint, disabled: Enable gives it an address.
func (d *Domain) NewEndpoint(cfg EndpointConfig) (_ *Endpoint, err error) {
	defer formed("new endpoint", &err)
	if err := cfg.check(d); err != nil {
		return nil, err
	}
	cfg.Direct = cfg.Direct || cfg.Datagram
	if err := d.enter(&d.open); err != nil {
		return nil, err
	}
	e := new(Endpoint)
	e.sh = cfg.home(d)
	e.dom, e.cfg, e.log = d, cfg, d.fab.log
	e.usual = e.flags(0, false, false)
	e.injectTo, e.mostInject = injected{e}, maxInject(d.fab.dev.Info().MTU)
	e.initOutcomes(&cfg)
	e.spare.to, e.spare.over = e, true
	e.arrivals = newArrivals(e)
	e.inbox.init(e)
	e.events.init(cfg.EventBacklog, d.fab.paths)
	if err := e.bind(); err != nil {
		e.unbind()
		return nil, err
	}
	return e, nil
}

// Address is where others reach the endpoint, with a path for each of the fabric's
// devices; the zero Address before Enable.
func (e *Endpoint) Address() Address {
	if e.state.Load() == disabled || e.act.Load() == nil {
		return Address{}
	}
	raws := e.act.Load().Addrs()
	a := Address{make([]path, 0, len(raws))}
	for i, raw := range raws {
		if p := &e.dom.fab.paths[i]; e.cfg.AV.cfg.tells(p, len(raws)) {
			a.paths = append(a.paths, path{p.scheme, raw})
		}
	}
	return a
}

// Config is the configuration in force: where EndpointConfig left something to the
// defaults, to the device or to chance, it has what was chosen. Before Enable it is what
// NewEndpoint was given.
func (e *Endpoint) Config() EndpointConfig {
	e.mu.Lock()
	defer e.mu.Unlock()
	cfg := e.cfg
	if e.act.Load() == nil {
		return cfg
	}
	cfg.TxDepth, cfg.RxDepth, cfg.EventBacklog = int(e.tx.max), int(e.rx.max), e.events.max
	cfg.MinMultiRecv, cfg.NextMemory = e.minMulti(), int(e.inbox.mem.max)
	cfg.QPN = e.act.Load().Addrs()[0].QPN()
	if cfg.Level == 0 {
		cfg.Level = Transmitted
	}
	cfg.Protocol = e.act.Load().Settings().Settings
	return cfg
}

// Domain is the endpoint's.
func (e *Endpoint) Domain() *Domain { return e.dom }

// AddressVector has the peers that the endpoint may talk to.
func (e *Endpoint) AddressVector() *AddressVector { return e.cfg.AV }

// SendQueue is where posted sends complete; nil if there is none.
func (e *Endpoint) SendQueue() *Queue { return e.cfg.SendQueue }

// RecvQueue is where posted receives complete; nil if there is none.
func (e *Endpoint) RecvQueue() *Queue { return e.cfg.RecvQueue }

// Close ends the endpoint: every operation in progress ends with ErrClosed, and
// nothing touches its buffer afterwards. Peers see what was under way fail, but those
// that wait to hear that all of their operation has arrived here are told so yet, for
// which Close takes a second at most. Close is idempotent, and returns when the
// endpoint has ended, also if another call closed it. What OpenEndpoint made is closed, too; ErrBusy
// says that something of it is in use yet, and that Close is to be called again.
func (e *Endpoint) Close() (err error) {
	defer formed("close", &err)
	if e.owned != nil {
		return e.owned.close()
	}
	return e.end(context.Background())
}

func (e *Endpoint) end(ctx context.Context) error {
	e.mu.Lock()
	was := e.state.Swap(closed)
	if was == closed {
		return e.awaitEnd(ctx) // unlocks
	}
	e.mu.Unlock()
	e.tx.close() // a caller that waits for a place must not get one that is freed now
	e.rx.close()
	e.inbox.mem.close()
	var err error
	if was == enabled || was == mute || was == draining {
		err = e.act.Load().Close(ctx)
		e.unfollow(err == nil)
		if errors.Is(err, shard.ErrClosed) {
			err = nil
		}
	}
	e.events.close()
	e.unbind()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for _, sig := range e.closers {
		sig.Set()
	}
	return err
}

// awaitEnd waits until somebody else's Close is done. It unlocks mu.
func (e *Endpoint) awaitEnd(ctx context.Context) error {
	if e.ended {
		e.mu.Unlock()
		return nil
	}
	sig := new(shard.Signal)
	e.closers = append(e.closers, sig)
	e.mu.Unlock()
	if err := e.sh.Wait(ctx, sig); err != nil && !errors.Is(err, shard.ErrClosed) {
		return err
	}
	return nil
}

// Shutdown waits until all sends, writes, reads and atomics that were accepted have
// ended, then closes the endpoint; new ones get ErrClosed meanwhile. If ctx ends
// first it closes without that and returns ctx's error.
func (e *Endpoint) Shutdown(ctx context.Context) (err error) {
	defer formed("shut down", &err)
	if !e.state.CompareAndSwap(enabled, draining) {
		e.state.CompareAndSwap(mute, draining)
	}
	err = e.tx.idle(ctx, e.sh)
	return errtext.Join(err, e.Close())
}
