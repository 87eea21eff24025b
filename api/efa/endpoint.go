package efa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// EndpointConfig says what endpoint to make. Only AV is required.
type EndpointConfig struct {
	AV           *AddressVector
	SendQueue    *Queue   // for posted sends; may be the same as RecvQueue
	RecvQueue    *Queue   // for posted receives
	SendCounter  *Counter // of sends; may be the same as RecvCounter
	RecvCounter  *Counter // of receives
	Caps         Caps
	Level        Level  // default completion level
	TxDepth      int    // most sends in progress, see Limits; 0: 1024
	RxDepth      int    // most receives posted or in progress; 0: 16384
	QPN          uint16 // queue pair number; 0: any free one
	EventBacklog int    // events kept for NextEvent; 0: 256

	Protocol ProtocolConfig
}

// ProtocolConfig are the switch points and times of the protocol. Zero values
// mean the default; the names in brackets are the EFA provider's.
type ProtocolConfig struct {
	SendQueue   int           // packets with the device (FI_EFA_TX_SIZE), at most Limits.MaxSQ; 0: 256
	RecvQueue   int           // receive buffers (FI_EFA_RX_SIZE), at most Limits.MaxRQ; 0: 256
	MaxMedium   int           // bytes up to which a message needs no CTS (FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE); 0: the device's, EFA's is 65536; negative: none
	Credits     int           // packets in a CTS window (FI_EFA_TX_MIN_CREDITS); 0: 32
	RecvWindow  int           // messages in the reorder window (FI_EFA_RECVWIN_SIZE); 0: 16
	RNRRetry    int           // resends by the device before RNR is reported, 0 to 7, 7 for ever; negative: none, 0: 3
	RNRInitial  time.Duration // first back-off (FI_EFA_TIMEOUT_INTERVAL); 0: random 40 to 119 us
	RNRMax      time.Duration // longest back-off (FI_EFA_MAX_TIMEOUT); 0: 1 s
	ProbeAfter  time.Duration // silence of a peer before it is probed; 0: 1 s
	PeerTimeout time.Duration // no packet from it, and none that it took: it has failed; 0: 10 s. A peer that computes for long with full receive buffers wants more
	PeerMemory  int64         // bytes kept of one peer's unexpected messages; 0: 256 MiB
	TotalMemory int64         // bytes kept of all unexpected messages; 0: 1 GiB
	DetachLimit int           // bytes copied for a send whose context ended; 0: 1 MiB

	// FirstMsgID is where both directions begin to count, for tests of the
	// wrap-around; all endpoints that talk must agree.
	FirstMsgID uint32
	// ConnID is the endpoint's connid, 0 for a random one.
	ConnID uint32
	// WaitHandshake makes first messages wait for the peer's HANDSHAKE.
	WaitHandshake bool
	// Rounding is how medium messages are cut.
	Rounding ope.Rounding
	// HostID goes into HANDSHAKE; 0: none.
	HostID uint64
}

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

	state  atomic.Uint32
	mu     sync.Mutex // guards the changes of state
	lastID atomic.Uint64
	tx, rx credits
	sendTo *source
	recvTo *source
	events events

	injectTo ope.Sink
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
	if err := d.enter(); err != nil {
		return nil, err
	}
	c := &core{dom: d, cfg: cfg, sh: d.shard(), log: d.fab.log}
	c.injectTo = injected{c}
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
	c.cfg.SendCounter.bind(c.sh)
	c.cfg.RecvCounter.bind(c.sh)
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
	c.cfg.SendCounter.unbind()
	c.cfg.RecvCounter.unbind()
	c.dom.leave()
}

func (cfg *EndpointConfig) check(d *Domain) error {
	p := &cfg.Protocol
	var errs []error
	bad := func(cond bool, err error, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...)))
		}
	}
	bad(cfg.AV == nil, ErrNoAV, "EndpointConfig.AV is required")
	bad(cfg.AV != nil && cfg.AV.dom != d, ErrDomain, "the address vector is another domain's")
	for _, q := range []*Queue{cfg.SendQueue, cfg.RecvQueue} {
		bad(q != nil && q.dom != d, ErrDomain, "the queue is another domain's")
	}
	for _, n := range []*Counter{cfg.SendCounter, cfg.RecvCounter} {
		bad(n != nil && n.dom != d, ErrDomain, "the counter is another domain's")
	}
	bad(cfg.Caps&^capsBuilt != 0, ErrNotSupported, "the capabilities %v are not built yet, %v are", cfg.Caps&^capsBuilt, capsBuilt)
	bad(cfg.Level > Injected, ErrNotSupported, "completion level %d is not built yet", cfg.Level)
	limits := d.Limits()
	for _, x := range []struct {
		name    string
		v, most int
	}{
		{"TxDepth", cfg.TxDepth, limits.MaxOps},
		{"RxDepth", cfg.RxDepth, limits.MaxOps},
		{"EventBacklog", cfg.EventBacklog, math.MaxInt},
		{"Protocol.SendQueue", p.SendQueue, limits.MaxSQ},
		{"Protocol.RecvQueue", p.RecvQueue, limits.MaxRQ},
		{"Protocol.Credits", p.Credits, math.MaxInt},
		{"Protocol.RecvWindow", p.RecvWindow, math.MaxInt},
		{"Protocol.DetachLimit", p.DetachLimit, math.MaxInt},
		{"Protocol.PeerMemory", int(p.PeerMemory), math.MaxInt},
		{"Protocol.TotalMemory", int(p.TotalMemory), math.MaxInt},
		{"Protocol.RNRInitial", int(p.RNRInitial), math.MaxInt},
		{"Protocol.RNRMax", int(p.RNRMax), math.MaxInt},
		{"Protocol.ProbeAfter", int(p.ProbeAfter), math.MaxInt},
		{"Protocol.PeerTimeout", int(p.PeerTimeout), math.MaxInt},
	} {
		bad(x.v < 0, ErrInvalid, "%s is %d, must not be negative", x.name, x.v)
		bad(x.v > x.most, ErrInvalid, "%s is %d, at most %d", x.name, x.v, x.most)
	}
	bad(p.RNRRetry > 7, ErrInvalid, "Protocol.RNRRetry is %d, at most 7", p.RNRRetry)
	return errors.Join(errs...)
}

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
	var f wire.Features
	f.Set(wire.FeatureConnIDHeader)
	act, err := endpoint.Open(endpoint.Config{
		Shard: c.sh, Device: c.dom.fab.dev, Book: book{c.cfg.AV},
		ConnID: id, QPN: c.cfg.QPN, SQ: p.SendQueue, RQ: p.RecvQueue, RNRRetry: rnrRetry(p.RNRRetry),
		DetachLimit: p.DetachLimit,
		Policy:      ope.Policy{MaxMedium: p.MaxMedium, Credits: p.Credits, Rounding: p.Rounding},
		Peer: peer.Config{
			RecvWindow: p.RecvWindow, MsgIDBase: p.FirstMsgID, RNRInitial: p.RNRInitial, RNRMax: p.RNRMax,
			ProbeAfter: p.ProbeAfter, PeerTimeout: p.PeerTimeout, PeerMemory: p.PeerMemory,
			TotalMemory: p.TotalMemory, Features: f, HostID: p.HostID, WaitHandshake: p.WaitHandshake,
		},
		OnEvent: c.onEvent, OnFlush: c.onFlush, Log: c.log,
	})
	if err != nil {
		return fmt.Errorf("efa: enable: %w", err)
	}
	c.act = act
	c.state.Store(enabled)
	return nil
}

// randomConnID draws a connid: libfabric's are 31 bits, not 0.
func randomConnID(c *core) uint32 {
	if env, ok := c.dom.fab.dev.(Environment); ok {
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

// Address is where others reach the endpoint; the zero Address before Enable.
func (e *Endpoint) Address() Address {
	if e.state.Load() == disabled || e.act == nil {
		return Address{}
	}
	return NewAddress(e.dom.scheme, e.act.Addr())
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
// nothing touches its buffer afterwards. Peers see what was under way fail. Close
// is idempotent, and returns when the endpoint has ended, whoever closed it.
func (e *Endpoint) Close() error { return e.close(context.Background()) }

func (c *core) close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.state.Swap(closed)
	if was == closed {
		return nil
	}
	c.tx.close() // who waits for a place must not get one that is freed now
	c.rx.close()
	var err error
	if was == enabled || was == draining {
		if err = c.act.Close(ctx); errors.Is(err, shard.ErrClosed) {
			err = nil
		}
	}
	c.events.close()
	c.unbind()
	return err
}

// Shutdown waits until all sends that were accepted have ended, then closes the
// endpoint; new ones get ErrClosed meanwhile. If ctx ends first it closes at once
// and returns ctx's error.
func (e *Endpoint) Shutdown(ctx context.Context) error {
	e.state.CompareAndSwap(enabled, draining)
	err := e.tx.idle(ctx, e.sh)
	return errors.Join(err, e.Close())
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
