package efa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/runtime/clock"
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
	tx, rx semaphore
	av     *AddressVector // has the names of peers
	// Places that have become free since the last flush, in rows KindSend and KindRecv; the shard's, see flush.
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

// The states of an endpoint, in their order.
const (
	disabled uint32 = iota
	enabled
	mute     // likewise, but Initiate has no CapMessages
	draining // Shutdown waits for sends, there are no new ones
	closed
)

// NewEndpoint makes an endpoint, disabled: Enable gives it an address.
func (d *Domain) NewEndpoint(cfg EndpointConfig) (_ *Endpoint, err error) {
	defer formed("new endpoint", &err)
	if err := cfg.check(d); err != nil {
		return nil, err
	}
	cfg.Direct = cfg.Direct || cfg.Datagram
	e := new(Endpoint)
	if err := d.eps.add(e); err != nil {
		return nil, err
	}
	e.sh = cfg.home(d)
	e.dom, e.cfg, e.log = d, cfg, d.fab.log
	e.usual = e.flags(0, false, false)
	e.injectTo, e.mostInject = injected{e}, maxInject(d.fab.dev.Info().MTU)
	e.initOutcomes(&cfg)
	e.spare.to, e.spare.over = e, true
	e.arrivals = newArrivals(cfg.Arrivals, e)
	e.inbox.init(e)
	e.events.init(cfg.EventBacklog, d.fab.paths)
	if err := e.bind(); err != nil {
		e.unbind()
		return nil, err
	}
	return e, nil
}

// bind enters the endpoint where others must know of it. After a failure unbind
// takes it out again.
func (e *Endpoint) bind() (err error) {
	for _, n := range e.cfg.counters() {
		n.bind(e.sh)
	}
	if p := e.cfg.RecvPool; p != nil {
		if err := p.eps.add(e); err != nil {
			return err
		}
	}
	if err := e.cfg.AV.eps.add(e); err != nil {
		return err
	}
	if q := e.cfg.SendQueue; q != nil {
		if e.sendTo, err = q.bind(e); err != nil {
			return err
		}
	}
	if q := e.cfg.RecvQueue; q != nil {
		if e.recvTo, err = q.bind(e); err != nil {
			return err
		}
	}
	return nil
}

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

// enable opens the endpoint, after one that has ended if was is not nil.
func (e *Endpoint) enable(was *endpoint.Endpoint) error {
	id := settings.KnobsOf(&e.cfg.Protocol).ConnID
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
		SRX: pool, SRXSink: sink,
		Direct: e.cfg.Direct, Datagram: e.cfg.Datagram, ConnID: id, QPN: e.cfg.QPN,
		After: was, Settings: force, Refuse: refuse,
		OnOpen:  func(act *endpoint.Endpoint) { e.opened(act, was != nil) },
		OnEvent: e.events.on, OnWritten: e.onWritten, WrittenRoom: e.writtenRoom, OnFlush: e.flush, OnEnd: e.onEnd,
		OnCounted: e.arrivals.counter(), OnServed: e.events.ofServed(&e.cfg), News: e.tellNews,
		Wanted: e.cfg.wanted(),
		Log:    e.log, Trail: e.follow(),
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

// opened makes act the endpoint before anything can happen to it.
func (e *Endpoint) opened(act *endpoint.Endpoint, again bool) {
	e.act.Store(act)
	if again {
		e.inbox.renew()
		e.events.add(Event{Kind: EnabledAgain, Peer: NoAddr, Address: e.Address()})
	}
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

// live checks that the endpoint is enabled.
func (e *Endpoint) live() error {
	switch e.state.Load() {
	case disabled:
		return fmt.Errorf("%w: the endpoint is not enabled", ErrBadState)
	case closed:
		return ErrClosed
	default:
		return nil
	}
}

// ready checks that the endpoint is enabled, and takes new operations that leave it.
func (e *Endpoint) ready() error {
	switch e.state.Load() {
	case enabled, mute:
		return nil
	case draining:
		return fmt.Errorf("%w: the endpoint is shutting down", ErrClosed)
	default:
		return e.live()
	}
}

// may checks that the endpoint is enabled, and begins operations of a kind.
func (e *Endpoint) may(kind Caps) error {
	if err := e.ready(); err != nil {
		return err
	}
	if !e.cfg.Initiate.has(kind) {
		return fmt.Errorf("%w: %v by an endpoint with Initiate %v", ErrNotSupported, kind, e.cfg.Initiate)
	}
	return nil
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

// Serve answers everyone who connects to l with the endpoint's address, until ctx
// ends or l is closed: then it returns nil. After the end of the endpoint it
// returns ErrClosed to the caller at the next connection. It closes l. A connection that cannot be
// accepted, for want of descriptors for example, ends nothing: Serve logs a warning and tries again
// after a pause, which grows to a second.
func (e *Endpoint) Serve(ctx context.Context, l net.Listener) (err error) {
	defer formed("serve address", &err)
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept tells
	defer stop()
	a := acceptor{l: l, log: e.dom.fab.log}
	for {
		c, err := a.accept(ctx)
		if c == nil || err != nil {
			return err
		}
		if err := e.live(); err != nil {
			_ = c.Close() // there is nothing to tell
			return err
		}
		// A client that does not read must not hold up the others for long.
		_ = c.SetDeadline(clock.Deadline(time.Second))
		_, _ = io.WriteString(c, e.Address().String()+"\n") // its loss
		_ = c.Close()
	}
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

// Arrivals counts the writes that peers make here; nil without EndpointConfig.Arrivals.
func (e *Endpoint) Arrivals() *Arrivals { return e.arrivals }

// flush runs on the shard at the end of a turn. A program that reads a completion may post the
// next operation, so places come first.
func (e *Endpoint) flush() {
	if n := e.free[ope.KindSend]; n > 0 {
		e.free[ope.KindSend] = 0
		e.tx.settle(-n)
	}
	if n := e.free[ope.KindRecv]; n > 0 {
		e.free[ope.KindRecv] = 0
		e.rx.settle(-n)
	}
	if e.sendTo != nil {
		e.sendTo.publish()
	}
	if e.recvTo != nil && e.recvTo != e.sendTo {
		e.recvTo.publish()
	}
}

// writtenRoom takes the place for a [RemoteWrite] in the receive queue, if there is
// one. It runs on the shard.
func (e *Endpoint) writtenRoom() bool {
	return e.recvTo == nil || e.recvTo.Room()
}

// inserted tells the endpoint of new handles.
func (e *Endpoint) inserted(hs []Addr) {
	if e.live() != nil {
		return
	}
	e.news.add(hs)
	e.control(e.tellNews)
}

// tellNews passes on what the shard has not heard yet. Runs on the shard.
func (e *Endpoint) tellNews() {
	if !e.news.any.Load() {
		return
	}
	for _, h := range e.news.take() {
		if h < NoAddr {
			e.act.Load().Insert(uint64(h), 1)
		}
	}
}

// removed makes the endpoint let go of a handle.
func (e *Endpoint) removed(r *removal) {
	if e.live() != nil {
		r.done()
		return
	}
	e.control(func() {
		e.act.Load().Remove(uint64(r.h))
		r.done()
	})
}

// waitError is the error of a wait for something of a peer's that has ended.
func (e *Endpoint) waitError(p Addr, err error) error {
	q, r := ope.Request{Kind: ope.KindRecv, Peer: uint64(p)}, ope.Result{Err: err, Peer: uint64(p)}
	err = e.opError(&q, &r)
	if x := new(OpError); errors.As(err, &x) {
		x.Op = "wait"
	}
	return err
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
	setAll(e.closers)
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

func (e *Endpoint) unbind() {
	e.cfg.AV.eps.remove(e)
	if e.cfg.RecvPool != nil {
		e.cfg.RecvPool.eps.remove(e)
	}
	for _, q := range []*Queue{e.cfg.SendQueue, e.cfg.RecvQueue} {
		if q != nil {
			q.unbind(e)
		}
	}
	for _, n := range e.cfg.counters() {
		n.unbind()
	}
	e.dom.eps.remove(e)
}
