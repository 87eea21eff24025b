package native

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

// Config configures an endpoint.
type Config struct {
	Name     string     // "" for "efactor"
	Device   string     // as efa.OpenDevice has it
	Open     efa.Device // in place of Device; the node closes it
	Protocol efa.ProtocolConfig
	Direct   bool     // without the protocol
	Tap      tap.Sink // gets every packet; may be nil
	// SameQPN has Open after Close ask for the number that the endpoint had.
	SameQPN bool
}

// Node is efactor as a party.
type Node struct {
	cfg     Config
	dev     efa.Device
	scheme  string // of its addresses
	fab     *efa.Fabric
	dom     *efa.Domain
	notices chan party.Outcome

	mu  sync.Mutex
	one *life // nil: not open
	qpn uint16
}

// life holds the objects from Open to Close.
type life struct {
	av       *efa.AddressVector
	ep       *efa.Endpoint
	queue    *efa.Queue
	counters [5]*efa.Counter
	ended    sync.WaitGroup // goroutines
	many     atomic.Pointer[chan efa.Completion]
}

var _ party.Party = (*Node)(nil)

// New opens the device.
func New(cfg Config) (*Node, error) {
	if cfg.Name == "" {
		cfg.Name = "efactor"
	}
	dev := cfg.Open
	if dev == nil {
		var err error
		if dev, err = efa.OpenDevice(cfg.Device); err != nil {
			return nil, fmt.Errorf("native: %w", err)
		}
	}
	scheme, _, _ := strings.Cut(dev.Info().Name, ":")
	if cfg.Tap != nil {
		dev = tap.Wrap(dev, cfg.Tap)
	}
	n := &Node{cfg: cfg, dev: dev, scheme: scheme, notices: make(chan party.Outcome, 256)}
	var err error
	if n.fab, err = efa.Open(efa.Config{Device: dev}); err == nil {
		n.dom, err = n.fab.OpenDomain(efa.DomainConfig{})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("native: %w", err), n.Stop())
	}
	return n, nil
}

// Stop releases everything; regions must be closed.
func (n *Node) Stop() error {
	errs := []error{n.Close(context.Background())}
	if n.dom != nil {
		errs = append(errs, n.dom.Close())
	}
	if n.fab != nil {
		errs = append(errs, n.fab.Close())
	}
	return errors.Join(append(errs, n.dev.Close())...)
}

// Name implements party.Party.
func (n *Node) Name() string { return n.cfg.Name }

// Notices implements party.Party.
func (n *Node) Notices() <-chan party.Outcome { return n.notices }

// Counted are the data of peers' writes that are counted by Arrivals, and not passed on.
var Counted = efa.Values{First: 0xc0de00, Last: 0xc0de3f}

// Arrivals counts peers' writes with such data since Open.
func (n *Node) Arrivals() *efa.Arrivals {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.one.ep.Arrivals()
}

// Limits are those of the domain.
func (n *Node) Limits() efa.Limits { return n.dom.Limits() }

// MaxInject implements party.Party.
func (n *Node) MaxInject() int { return n.dom.Limits().MaxInject }

// Open implements party.Party.
func (n *Node) Open(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.one != nil {
		return efa.ErrBadState
	}
	l := &life{av: n.dom.NewAddressVector()}
	var err error
	if l.queue, err = n.dom.NewQueue(4096); err != nil {
		return err
	}
	for i := range l.counters {
		l.counters[i] = n.dom.NewCounter()
	}
	cfg := efa.EndpointConfig{
		AV: l.av, RecvQueue: l.queue, Direct: n.cfg.Direct, Protocol: n.cfg.Protocol,
		SendCounter: l.counters[0], RecvCounter: l.counters[1], WriteCounter: l.counters[2],
		ReadCounter: l.counters[3], RemoteWriteCounter: l.counters[4],
		Arrivals: &efa.ArrivalsConfig{Expected: []efa.Values{Counted}},
	}
	if n.cfg.SameQPN {
		cfg.QPN = n.qpn
	}
	if l.ep, err = n.dom.NewEndpoint(cfg); err != nil {
		return errors.Join(err, l.queue.Close())
	}
	if err = l.ep.Enable(ctx); err != nil {
		return errors.Join(err, l.ep.Close(), l.queue.Close())
	}
	raw, _ := l.ep.Address().Raw(n.scheme)
	n.qpn = raw.QPN()
	n.one = l
	l.ended.Go(func() { n.watch(l) })
	return nil
}

// watch passes peers' writes with data on.
func (n *Node) watch(l *life) {
	var cs [1]efa.Completion
	for {
		if _, err := l.queue.Read(context.Background(), cs[:]); err != nil {
			return
		}
		if many := l.many.Load(); many != nil && (cs[0].Kind == efa.Received || cs[0].Kind == efa.Released) {
			*many <- cs[0]
			continue
		}
		select {
		case n.notices <- outcome(cs[0], nil):
		default: // not awaited
		}
	}
}

// Close implements party.Party.
func (n *Node) Close(context.Context) error {
	n.mu.Lock()
	l := n.one
	n.one = nil
	n.mu.Unlock()
	if l == nil {
		return nil
	}
	err := errors.Join(l.ep.Close(), l.queue.Close())
	l.ended.Wait()
	return errors.Join(err, l.av.Close())
}

// open is the endpoint as it is now.
func (n *Node) open() (*life, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.one == nil {
		return nil, efa.ErrBadState
	}
	return n.one, nil
}

// Endpoint is the endpoint, for operations that a Party does not have; nil if it is
// closed.
func (n *Node) Endpoint() *efa.Endpoint {
	l, err := n.open()
	if err != nil {
		return nil
	}
	return l.ep
}

// Address implements party.Party.
func (n *Node) Address() []byte {
	l, err := n.open()
	if err != nil {
		return nil
	}
	raw, _ := l.ep.Address().Raw(n.scheme)
	return raw[:]
}

// Insert implements party.Party.
func (n *Node) Insert(_ context.Context, address []byte) (party.Peer, error) {
	l, err := n.open()
	if err != nil {
		return party.NoPeer, err
	}
	if len(address) != wire.RawAddrLen {
		return party.NoPeer, fmt.Errorf("native: an address of %d bytes", len(address))
	}
	h, err := l.av.Insert(efa.NewAddress(n.scheme, efa.RawAddr(address)))
	return party.Peer(h), err
}

// Remove implements party.Party.
func (n *Node) Remove(ctx context.Context, p party.Peer) error {
	l, err := n.open()
	if err != nil {
		return err
	}
	return l.av.Remove(ctx, efa.Addr(p))
}

// Counters implements party.Party.
func (n *Node) Counters(context.Context) (party.Counters, error) {
	l, err := n.open()
	if err != nil {
		return party.Counters{}, err
	}
	var ok [5]uint64
	var c party.Counters
	for i, counter := range l.counters {
		var failed uint64
		ok[i], failed = counter.Value()
		c.Failed += failed
	}
	c.Send, c.Recv, c.Write, c.Read, c.RemoteWrite = ok[0], ok[1], ok[2], ok[3], ok[4]
	return c, nil
}
