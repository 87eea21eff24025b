package efa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Caps are what an endpoint may do; zero means everything that is built.
type Caps uint32

// The capabilities (FI_MSG and so on).
const (
	CapMsg Caps = 1 << iota
	CapTagged
	CapSend // without CapSend and CapRecv both are granted
	CapRecv
	CapDirectedRecv
	CapRMA    // not built yet
	CapAtomic // not built yet

	capsBuilt = CapMsg | CapTagged | CapSend | CapRecv | CapDirectedRecv
)

// EndpointConfig says what endpoint to make. Only AV is required.
type EndpointConfig struct {
	AV           *AddressVector
	SendQueue    *Queue // for posted sends; may be the same as RecvQueue
	RecvQueue    *Queue // for posted receives
	SendCounter  *Counter
	RecvCounter  *Counter
	Caps         Caps
	Level        Level // default completion level
	TxDepth      int   // sends in progress; 0: 1024
	RxDepth      int   // receives posted or in progress; 0: 16384
	QPN          uint16
	EventBacklog int // events kept for Events; 0: 256

	Protocol ProtocolConfig
}

// ProtocolConfig are the switch points and times of the protocol. Zero values
// mean the default; the names in brackets are the EFA provider's.
type ProtocolConfig struct {
	SendQueue   int           // packets with the device (FI_EFA_TX_SIZE); 0: 256
	RecvQueue   int           // receive buffers (FI_EFA_RX_SIZE); 0: 256
	MaxMedium   int           // bytes up to which a message needs no CTS (FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE); 0: the device's, EFA's is 65536; negative: none
	Credits     int           // packets in a CTS window (FI_EFA_TX_MIN_CREDITS); 0: 32
	RecvWindow  int           // messages in the reorder window (FI_EFA_RECVWIN_SIZE); 0: 16
	RNRRetry    int           // resends by the device before RNR is reported, 0 to 7, 7 for ever; negative: none, 0: 3
	RNRInitial  time.Duration // first back-off (FI_EFA_TIMEOUT_INTERVAL); 0: random 40 to 119 us
	RNRMax      time.Duration // longest back-off (FI_EFA_MAX_TIMEOUT); 0: 1 s
	ProbeAfter  time.Duration // silence of a peer before it is probed; 0: 1 s
	PeerTimeout time.Duration // silence before it has failed; 0: 10 s
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

const (
	disabled uint32 = iota
	enabled
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
	cfg.AV.bind(c)
	if cfg.SendQueue != nil {
		c.sendTo = cfg.SendQueue.bind(c)
	}
	if cfg.RecvQueue != nil {
		c.recvTo = cfg.RecvQueue.bind(c)
	}
	for _, n := range []*Counter{cfg.SendCounter, cfg.RecvCounter} {
		if n != nil {
			n.shard.CompareAndSwap(nil, c.sh)
		}
	}
	return &Endpoint{core: c, def: settings{level: cfg.Level, from: AnyAddr}}, nil
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
	bad(cfg.Caps&^capsBuilt != 0, ErrNotSupported, "capabilities %#x are not built yet, %#x are", uint32(cfg.Caps&^capsBuilt), uint32(capsBuilt))
	bad(cfg.Level > Injected, ErrNotSupported, "completion level %d is not built yet", cfg.Level)
	for _, x := range []struct {
		name string
		v    int
	}{{"TxDepth", cfg.TxDepth}, {"RxDepth", cfg.RxDepth}, {"SendQueue", p.SendQueue}, {"RecvQueue", p.RecvQueue}, {"Credits", p.Credits}, {"RecvWindow", p.RecvWindow}, {"DetachLimit", p.DetachLimit}} {
		bad(x.v < 0, ErrInvalid, "%s is %d, must not be negative", x.name, x.v)
	}
	bad(cfg.TxDepth > ope.MaxOps || cfg.RxDepth > ope.MaxOps, ErrInvalid, "TxDepth %d and RxDepth %d may be at most %d", cfg.TxDepth, cfg.RxDepth, ope.MaxOps)
	bad(p.RNRRetry > 7, ErrInvalid, "RNRRetry is %d, at most 7", p.RNRRetry)
	return errors.Join(errs...)
}

// Enable opens the endpoint on its device and gives it an address. ctx bounds
// the wait for its shard.
func (e *Endpoint) Enable(ctx context.Context) error {
	c := e.core
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Load() != disabled {
		return fmt.Errorf("%w: Enable of an endpoint that is enabled or closed", ErrBadState)
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

// SendQueue and RecvQueue are those of the EndpointConfig.
func (e *Endpoint) SendQueue() *Queue { return e.cfg.SendQueue }

// RecvQueue is where posted receives complete.
func (e *Endpoint) RecvQueue() *Queue { return e.cfg.RecvQueue }

// With returns a view of the endpoint with other defaults for its operations
// (fi_ep_alias). A view holds no resources.
func (e *Endpoint) With(opts ...OpOption) *Endpoint {
	v := &Endpoint{core: e.core, def: e.def}
	v.def.apply(opts)
	return v
}

// Close ends the endpoint: every operation in progress ends with ErrClosed, and
// nothing touches its buffer afterwards. Peers see what was under way fail. Close
// is idempotent.
func (e *Endpoint) Close() error { return e.close(context.Background()) }

func (c *core) close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.state.Swap(closed)
	if was == closed {
		return nil
	}
	var err error
	if was == enabled {
		if err = c.act.Close(ctx); errors.Is(err, shard.ErrClosed) {
			err = nil
		}
	}
	c.cfg.AV.unbind(c)
	for _, q := range []*Queue{c.cfg.SendQueue, c.cfg.RecvQueue} {
		if q != nil {
			q.unbind(c)
		}
	}
	c.tx.close()
	c.rx.close()
	c.events.close()
	c.dom.leave()
	return err
}

// Shutdown waits until all sends that were accepted have ended, then closes the
// endpoint. If ctx ends first it closes at once and returns ctx's error.
func (e *Endpoint) Shutdown(ctx context.Context) error {
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

// inserted tells the endpoint of new handles.
func (c *core) inserted(hs []Addr) {
	if c.state.Load() != enabled {
		return
	}
	list := append([]Addr(nil), hs...)
	c.control(func() {
		for _, h := range list {
			if h < notAvail {
				c.act.Insert(uint64(h), 1)
			}
		}
	})
}

// removed makes the endpoint let go of a handle and waits until it has.
func (c *core) removed(ctx context.Context, h Addr) error {
	if c.state.Load() != enabled {
		return nil
	}
	var sig shard.Signal
	c.control(func() { c.act.Remove(uint64(h)); sig.Set() })
	return c.sh.Wait(ctx, &sig)
}
