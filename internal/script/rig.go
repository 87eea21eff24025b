package script

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Config configures a rig; the zero value is an endpoint with defaults on a device
// like EFA's.
type Config struct {
	Info     device.Info     // of the device
	Endpoint endpoint.Config // Shard, Device, Book and the callbacks are the rig's
	Seed     uint64          // of the shard's randomness
	Queue    bool            // every message between actors goes through the ring
	Pool     bool            // the endpoint has a pool of receives
}

// Rig is an endpoint and the test around it, in one goroutine.
type Rig struct {
	Clock clock.Manual
	Shard *shard.Shard
	EP    *endpoint.Endpoint
	QP    *QP
	Pool  *endpoint.SRX // nil without Config.Pool
	Book  Book
	// Regions are those of the domain.
	Regions mr.Table

	// Log holds the events as text: packets, outcomes, events.
	Log []string
	// Outcomes are those of all operations, in order.
	Outcomes []Outcome
	// Events are the endpoint's.
	Events []endpoint.Event

	Rooms

	dev     *Device
	remotes []*Remote
	regions []*Region
	shared  []*Shared
	ops     map[uint64]*Op
	nextID  uint64
	last    map[string]string // numbers in the packets that went out, by field
	printed int               // packets that are in Log
	closed  bool
	// Auto makes Run complete every packet with success, in order.
	Auto bool
	// OnDone, if set, is called with every outcome after it was recorded, inside
	// the actor that gave it.
	OnDone func(*Op)
}

// Start opens the endpoint. The caller's goroutine owns the shard from now on.
func Start(cfg Config) (*Rig, error) {
	if cfg.Seed == 0 {
		cfg.Seed = 1
	}
	r := &Rig{Rooms: -1, ops: make(map[uint64]*Op), last: make(map[string]string)}
	sh, err := shard.New(shard.Config{
		Name: "script", External: true, Clock: &r.Clock, Seed: cfg.Seed, Logger: cfg.Endpoint.Log,
	})
	if err != nil {
		return nil, err
	}
	if !sh.Adopt() {
		return nil, fmt.Errorf("script: shard %s has an owner", sh.Name())
	}
	r.Shard = sh
	if cfg.Queue {
		sh.QueueAll()
	}
	dev := NewDevice(cfg.Info)
	ep := cfg.Endpoint
	ep.Shard, ep.Device, ep.Book, ep.Regions = sh, dev, &r.Book, &r.Regions
	if ep.ConnID == 0 {
		ep.ConnID = 0x1d
	}
	ep.OnEvent, ep.OnWritten = r.onEvent, r.logWritten
	if cfg.Pool {
		if err := r.openPool(&ep); err != nil {
			return nil, err
		}
	}
	if r.EP, err = endpoint.Open(ep); err != nil {
		return nil, err
	}
	r.dev, r.QP = dev, dev.qp
	r.remotes = append(r.remotes, &Remote{Name: "me", Addr: r.EP.Addrs()[0]})
	r.Run()
	return r, nil
}

// Run turns the shard until nothing happens any more, and writes down the packets
// that went out.
func (r *Rig) Run() {
	for {
		r.settle()
		flying := r.QP.Flying()
		if !r.Auto || len(flying) == 0 || r.QP.Closed() {
			return
		}
		for _, s := range flying {
			r.QP.Complete(s, device.StatusOK)
		}
	}
}

// settle turns the shard until turns do nothing; the log gets packets when they
// go out.
func (r *Rig) settle() {
	for idle := 0; idle < 3; {
		n := r.Shard.Turn()
		for _, s := range r.QP.Sent()[r.printed:] {
			r.logSent(s)
		}
		r.printed = len(r.QP.Sent())
		if idle++; n > 0 {
			idle = 0
		}
	}
}

// Advance moves the clock by d in small steps, running the shard at each, so that
// timers which start timers fire when they should.
func (r *Rig) Advance(d time.Duration) {
	end := r.Clock.Now().Add(d)
	for r.Clock.Now() < end {
		next, ok := r.Shard.NextTimer()
		if !ok || next > end {
			next = end
		}
		r.Clock.Set(max(next, r.Clock.Now()+1))
		r.Run()
	}
}

// AddRemote makes a remote endpoint known to the log.
func (r *Rig) AddRemote(x *Remote) { r.remotes = append(r.remotes, x) }

// Remotes are all that the log knows: the endpoint itself, then the others.
func (r *Rig) Remotes() []*Remote { return r.remotes }

// Remote finds one by name, nil if there is none.
func (r *Rig) Remote(name string) *Remote {
	for _, x := range r.remotes {
		if x.Name == name {
			return x
		}
	}
	return nil
}

// Enter puts a remote into the address vector without a notification to the
// endpoint.
func (r *Rig) Enter(x *Remote) { x.Handle, x.Listed = r.Book.insert(x.Addr), true }

// Insert puts a remote into the address vector and notifies the endpoint.
func (r *Rig) Insert(x *Remote) {
	r.Enter(x)
	r.control(func() { r.EP.Insert(x.Handle, 1) })
}

// Remove takes a remote out of the address vector.
func (r *Rig) Remove(x *Remote) {
	h := x.Handle
	r.Book.remove(h)
	x.Listed = false
	r.control(func() { r.EP.Remove(h) })
}

func (r *Rig) control(f func()) {
	r.EP.Submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: f}})
	r.Run()
}

// Inject lets a packet arrive from x; false if no receive is posted.
func (r *Rig) Inject(x *Remote, packet []byte) bool {
	return r.QP.Arrive(x.Addr.GID(), x.Addr.QPN(), false, packet)
}

// BeginClose starts to close the endpoint; Run goes on with it.
func (r *Rig) BeginClose() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.EP.Close(ctx) // the context has ended: this only begins
}

// Close closes the endpoint and the shard.
func (r *Rig) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.BeginClose()
	r.Run()
	if !r.QP.Closed() { // peers are owed something
		r.Advance(2 * time.Second)
	}
	err := r.EP.Close(context.Background())
	if err != nil {
		err = fmt.Errorf("close endpoint: %w", err)
	}
	return errors.Join(err, r.closePool(), r.Shard.Close())
}

func (r *Rig) onEvent(ev endpoint.Event) {
	r.Events = append(r.Events, ev)
	r.logEvent(ev)
}

// NameOf is how a handle appears in the log.
func (r *Rig) NameOf(handle uint64) string {
	if handle == peer.Unlisted {
		return "unlisted"
	}
	for _, x := range r.remotes[1:] {
		if x.Listed && x.Handle == handle {
			return x.Name
		}
	}
	return fmt.Sprint(handle)
}
