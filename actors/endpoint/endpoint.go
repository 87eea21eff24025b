package endpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/direct"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/ring"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Endpoint is the actor of one endpoint.
//
//   - It owns the matcher, the posted receives, the pools of operations, and the parts
//     that doc.go lists.
//   - The application reaches it through the request ring. Peers send it requests in
//     order, packets with another connid than theirs, and their own end; the device queue
//     sends it packets from queue pairs at which no peer is known.
//   - It submits sends to peers, tells rxes of matches, and gives outcomes of
//     receives that never matched to their sinks.
//   - It waits for nothing.
//   - Close ends every operation, then its children and itself.
type Endpoint struct {
	cfg   Config
	ref   shard.Ref
	ctx   actor.Context // valid while Receive or Poll runs
	env   *peer.Env
	queue *device.Queue
	qref  shard.Ref
	pools *ope.Pools
	reqs  *ring.MPSC[ope.Request]

	table       *match.Table  // nil without the protocol
	srx         *srxMember    // nil without an SRX
	port        *direct.Port  // nil with it
	span        uint64        // in the trail
	devicePaths []device.Path // of several devices; what each has carried changes
	polls       *shard.Polled // nil before it has begun

	special  bool        // not every message is taken as it comes: the endpoint closes, or some are starved
	handling bool        // unqueued, or else the request at the head of the ring
	unqueued ope.Request // the request that came without the ring; its Kind is 0 if there is none

	lastUnqueued uint64 // how many came so and got their id here

	peers    peers
	access   access
	claims   claims
	multi    multiRecvs
	writes   writeEvents
	watches  watches
	starved  starved
	pressure pressure
	closing  closing
}

// Open makes the queue pair and the actors. Any goroutine.
func Open(cfg Config) (*Endpoint, error) {
	cfg.setDefaults()
	if other := cfg.Settings.Device; other != nil && !cfg.Direct {
		cfg.Device = other(cfg.Device)
	}
	if cfg.Direct {
		if err := cfg.setDirect(); err != nil {
			return nil, err
		}
	}
	info := cfg.Device.Info()
	set := cfg.Settings.On(&info)
	e := new(Endpoint)
	qp, err := cfg.openQP(e.place)
	if err != nil {
		return nil, fmt.Errorf("open queue pair on %s: %w", info.Name, err)
	}
	*e = Endpoint{
		cfg:         cfg,
		reqs:        ring.NewMPSC[ope.Request](set.Requests),
		devicePaths: qp.Paths(),
	}
	paths := pathsOf(qp, &info)
	on := settingsOn(&cfg.Settings, paths)
	e.env = &peer.Env{
		Sh: cfg.Shard, Addr: wire.MakeRawAddr(info.GID, qp.QPN(), cfg.ConnID), ConnID: cfg.ConnID, Paths: peerPaths(paths, on, cfg.ConnID),
		MTU: info.MTU, Config: set,
		Pool: &peer.Pool{}, Log: cfg.Log, Trail: cfg.Trail, Names: cfg.Book.Name, Weigh: true,
	}
	e.pools = ope.NewPools(e.env, e.spawn)
	queue := device.QueueConfig{
		Shard: cfg.Shard, QP: qp, SQ: set.SendQueue, RQ: set.RecvQueue, Router: e, Refill: set.Refill, Place: e.place,
	}
	if cfg.Direct {
		e.port = newDirectPort(e)
		queue.Router, queue.Kept = e.port, true
	}
	e.queue = device.NewQueue(queue)
	e.env.Q = e.queue
	if set.Steps != nil {
		set.Steps(&e.pools.Steps)
	}
	if cfg.SRX != nil {
		e.pools.Entries = cfg.SRX.orders
	}
	e.pools.OnPaths(on)
	e.pools.Unlist = e.unlist
	e.pools.Info, e.pools.Device = info, cfg.Device
	for i := range paths {
		e.pools.Infos = append(e.pools.Infos, paths[i].Info)
	}
	e.pools.Regions, e.pools.Plain = cfg.Regions, cfg.Plain
	e.pools.OnWritten = e.writes.add
	e.pools.OnServed = e.access.servedReporter(cfg.OnServed)
	if !cfg.Direct {
		e.reserveBounce(paths)
	}
	e.env.Ops = e.pools
	e.assemble()
	if e.ref, err = cfg.Shard.Spawn("", func() actor.Actor { return e }); err != nil {
		_ = qp.Close() // the shard's error says more
		e.pools.CloseMemory()
		return nil, err
	}
	if cfg.After != nil {
		cfg.After.closing.handOver(e)
	}
	if cfg.OnOpen != nil {
		cfg.OnOpen(e)
	}
	cfg.Shard.Post(e.ref, &begin{})
	return e, nil
}

// openQP makes the queue pair.
func (c *Config) openQP(place device.Placer) (qp device.QP, err error) {
	info := c.Device.Info()
	set := c.Settings.On(&info)
	qpn, qpns := c.numbers()
	var transport device.QPType
	if c.Datagram {
		transport = device.UD
	}
	if c.Direct {
		place = nil
	}
	open := func() (err error) {
		qp, err = c.Device.OpenQP(device.QPConfig{
			SQDepth: set.SendQueue, RQDepth: set.RecvQueue, QPN: qpn, QPNs: qpns, QKey: c.ConnID,
			RNRRetry: set.Retries(), Silence: set.PeerTimeout, Notify: c.Shard.Wake, Type: transport, Place: place,
		})
		return err
	}
	err = device.Guard(open)
	if errors.Is(err, device.ErrNoMemory) && c.Plain != nil && c.Plain.Drop() {
		err = device.Guard(open)
	}
	return qp, err
}

// numbers are the queue pair's numbers to ask for: of one device, or by device.
func (c *Config) numbers() (qpn uint16, qpns []uint16) {
	if c.After == nil {
		return c.QPN, nil
	}
	was := c.After
	for i := range was.env.Paths {
		n := was.env.Paths[i].Addr.QPN()
		if was.pools.Infos[i].OwnQPN {
			n = 0
		}
		qpns = append(qpns, n)
	}
	if len(qpns) == 1 {
		return qpns[0], nil
	}
	return 0, qpns
}

// pathsOf lists the paths of a queue pair: one, unless it is over several devices.
func pathsOf(qp device.QP, info *device.Info) []device.Path {
	if ps := qp.Paths(); ps != nil {
		return ps
	}
	return []device.Path{{Info: *info, QPN: qp.QPN()}}
}

// peerPaths are the paths as peers know them.
func peerPaths(paths []device.Path, on []settings.InForce, connid uint32) []peer.Path {
	ps := make([]peer.Path, len(paths))
	for i := range paths {
		p := &paths[i]
		ps[i] = peer.Path{
			Addr: wire.MakeRawAddr(p.Info.GID, p.QPN, connid), Device: p.Info.Name, Kind: p.Info.Kind(), Pulse: p.Info.Pulse,
			Features: on[i].Features, DeviceID: on[i].DeviceID, HoldsBack: p.Info.HoldsBack,
		}
	}
	return ps
}

// settingsOn returns the settings in force on each path. Of several devices each tells its
// own peers what RDMA it has.
func settingsOn(s *settings.InForce, paths []device.Path) []settings.InForce {
	on := make([]settings.InForce, len(paths))
	for i := range paths {
		on[i] = s.On(&paths[i].Info)
		if len(paths) > 1 {
			on[i].Features = on[i].Habits.Knows(settings.Features(&on[i].Settings, &paths[i].Info))
		}
	}
	return on
}

// reserveBounce takes the memory that reads into plain memory go by way of, where a path's device
// wants registered memory. Without it no such path can say that it reads.
func (e *Endpoint) reserveBounce(paths []device.Path) {
	var err error
	for i := range paths {
		f := &e.env.Paths[i].Features
		if !paths[i].Info.LocalKeys || !f.Has(wire.FeatureRDMARead) {
			continue
		}
		if err = e.pools.Reserve(); err != nil {
			f.Clear(wire.FeatureRDMARead)
		}
	}
	if err != nil {
		e.cfg.Log.Warn("no RDMA read: its memory was refused", "err", err)
	}
}

// assemble gives the endpoint's parts what they use of it and of each other. The matcher and
// the span are made on the shard: start passes them on.
func (e *Endpoint) assemble() {
	e.closing.e, e.starved.e = e, e
	e.peers = peers{
		env: e.env, pools: e.pools, closing: &e.closing, book: e.cfg.Book,
		spawn: e.spawn, event: e.cfg.OnEvent, multi: &e.multi, most: e.env.Config.MaxUnlistedPeers,
	}
	e.peers.overflow.env, e.peers.overflow.peers = e.env, &e.peers
	e.peers.checks.peers = &e.peers
	e.peers.evicted.most = evictedPerPeer * e.peers.most
	e.access = access{
		refuse: e.cfg.Refuse,
		env:    e.env, pools: e.pools, regions: e.cfg.Regions, peers: &e.peers, starved: &e.starved, closing: &e.closing, event: e.cfg.OnEvent,
	}
	e.claims = claims{env: e.env, pools: e.pools, closing: &e.closing, reject: e.reject, waits: peekWaits{peers: &e.peers}}
	e.multi = multiRecvs{pools: e.pools, claims: &e.claims, end: e.end}
	e.writes = writeEvents{
		env: e.env, peers: &e.peers, closing: &e.closing, deliver: e.cfg.OnWritten, room: e.cfg.WrittenRoom,
		counted: e.cfg.OnCounted,
	}
	e.pressure = pressure{env: e.env, peers: &e.peers, starved: &e.starved, event: e.cfg.OnEvent}
}

// begin makes the actor spawn its children and start to poll.
type begin struct{ shard.Message }

// start spawns the device queue and begins to poll.
func (e *Endpoint) start() {
	e.span = e.env.Trail.Next()
	e.env.Trail.Put(e.span, trail.EndpointBegin, 0, 0, 0)
	e.env.Trail.Locate(e.span, 0, &e.env.Addr)
	e.env.Endpoint, e.env.Acceptor = e.ref, e
	if e.port != nil {
		e.startDirect()
		return
	}
	e.table = match.NewSeeded(e.cfg.Shard.Rand().Uint64())
	e.peers.table, e.claims.table, e.multi.table = e.table, e.table, e.table
	if e.cfg.SRX != nil {
		e.srx = e.cfg.SRX.join(e, e.cfg.SRXSink)
	}
	e.pressure.span = e.span
	e.pressure.begin()
	e.qref = e.cfg.Shard.SpawnChild(e.ctx, "queue", func() actor.Actor { return e.queue })
	// Requests come first: a packet that a receive waits for by then is received at once.
	e.polls = e.cfg.Shard.AddPoller(e.ref, e.poller())
	e.cfg.Shard.AddPoller(e.qref, e.queue)
}

// spawn makes a child of the endpoint: a peer or a slab's operation.
func (e *Endpoint) spawn(p actor.Producer) shard.Ref { return e.cfg.Shard.SpawnChild(e.ctx, "", p) }

// Receive is the endpoint's message switch.
func (e *Endpoint) Receive(ctx actor.Context) {
	e.ctx = ctx
	switch m := ctx.Message().(type) {
	case *peer.Arrive:
		e.Accept(m.Pkt)
	case *device.Arrived:
		e.peers.onUnlisted(m.Pkt)
	case *peer.Stranger:
		e.peers.onOtherConnID(m)
	case *peer.Wrote:
		e.learnHandle(m.Link)
		e.writes.add(m.Link, m.Len, uint64(m.Data))
		m.Free()
	case *device.Written:
		e.writes.onUnlisted(m)
	case *device.Refused:
		e.access.onUnlistedRefused(m)
	case *peer.Intruded:
		e.access.onIntruded(m)
	case *peer.Down:
		e.onDown(m)
	case *peer.Up:
		e.unpark(m.Link)
	case *peer.Burial:
		e.unpark(m.Link)
		e.peers.forget(m.Link)
	case *device.Gone:
		e.peers.onGone(m)
	case *peer.OverLimit:
		e.cfg.OnEvent(Event{Kind: PeerPressure, Handle: m.Link.Handle, Addr: m.Link.Addr, Path: m.Link.Path})
	case *peer.WithinLimit:
		e.cfg.OnEvent(Event{Kind: PeerRelieved, Handle: m.Link.Handle, Addr: m.Link.Addr, Path: m.Link.Path})
	case *peer.BadPacket:
		e.onBadPacket(m)
	case *trickleMsg:
		e.pressure.onTick()
	case *peer.ConnIDChecked:
		e.peers.checks.onResult(m)
	case *overflowTick:
		e.peers.overflow.onTick()
	case *retryTick:
		e.peers.checks.onRetry()
	case *checkTick:
		e.peers.checks.onTick()
	case *keepaliveMsg:
		e.pressure.onKeepalive()
	case *closeStep:
		e.closing.step()
	case *device.Fatal:
		e.closing.onDeviceDown(fmt.Errorf("the queue pair has ended: %v", m.Status))
	case *deviceDown:
		e.closing.onDeviceDown(m.err)
	case *begin:
		e.start()
	case *actor.Restarting:
		e.closing.crashed()
	}
}

// Deliver implements device.Router.
func (e *Endpoint) Deliver(r *device.RecvPkt) {
	if l := e.peers.routes.cached(r.AH, r.QPN); l != nil {
		if sh := e.cfg.Shard; sh.Enter(l.Peer) {
			l.Deliver(r)
			sh.Exit()
			return
		}
	}
	e.deliverLater(r)
}

// place implements device.Placer.
func (e *Endpoint) place(ah device.AH, qpn uint16, head []byte, size int) (dst []byte, later bool) {
	if x := e.peers.routes.get(ah, qpn); x != nil && x.cur != nil { // also if a newcomer wants the place
		return x.cur.PayloadPlace(head, size)
	}
	return nil, false
}

// deliverLater is Deliver of a packet whose peer is at work, or was not heard lately.
func (e *Endpoint) deliverLater(r *device.RecvPkt) {
	e.cfg.Shard.Call(e.Route(r.AH, r.QPN), r.Arrived())
}

// Route implements device.Router: the actor that gets the packets from (ah, qpn).
func (e *Endpoint) Route(ah device.AH, qpn uint16) shard.Ref {
	if l := e.peers.routes.find(ah, qpn); l != nil {
		return l.Peer
	}
	return e.ref
}

// onDown ends the receives that only a failed peer could have satisfied.
func (e *Endpoint) onDown(m *peer.Down) {
	l, err := m.Link, m.Err
	if l.MayReturn() {
		e.park(l)
	}
	if l.Handle != peer.Unlisted {
		h := l.Handle
		e.failReceives(func(p *ope.Entry) bool { return p.Req.Peer != h }, err)
	}
	if !m.Again {
		e.cfg.OnEvent(Event{Kind: endKind(err), Handle: l.Handle, Addr: l.Addr, Path: l.Path, Err: err})
	}
	e.peers.forget(l)
}

// endKind is the kind of the event of a peer that ended for that reason.
func endKind(err error) EventKind {
	if errors.Is(err, peer.ErrLeft) {
		return PeerClosed
	}
	return PeerFailed
}

// onBadPacket tells of a packet that was dropped.
func (e *Endpoint) onBadPacket(m *peer.BadPacket) {
	ev := Event{Kind: BadPacket, Handle: peer.Unlisted, Err: m.Err}
	if l := m.Link; l != nil {
		ev.Handle, ev.Addr, ev.Path = l.Handle, l.Addr, l.Path
	}
	e.cfg.OnEvent(ev)
}

// HandleFailure is the endpoint's supervision: a panic in an operation ends that
// operation, in a peer that peer, in the device queue or the driver the endpoint.
func (e *Endpoint) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any,
) {
	e.env.LogOf(e.peers.byPID(child)).Error("panic in an actor", "actor", child.Id, "reason", reason, "message", fmt.Sprintf("%T", message))
	queue := child.Equal(e.qref.PID()) || e.port != nil // a port is of no use after a panic, either
	if queue || e.queue.Broken() {
		e.queue.Break()
		e.cfg.Shard.Tell(e.ref, &deviceDown{err: fmt.Errorf("panic in %s: %v", child.Id, reason)})
	}
	if queue {
		sup.StopChildren(child)
		return
	}
	// An actor learns from Restarting that it panicked; see its Receive.
	sup.RestartChildren(child)
}

// Addrs returns the endpoint's raw addresses, one for each path, best first.
func (e *Endpoint) Addrs() []wire.RawAddr {
	as := make([]wire.RawAddr, len(e.env.Paths))
	for i := range as {
		as[i] = e.env.Paths[i].Addr
	}
	return as
}

// Settings returns the settings in force. Where the device is several they are those for
// all of it.
func (e *Endpoint) Settings() *settings.InForce { return &e.env.Config }

// Ended reports whether the endpoint takes no more requests. Any goroutine.
func (e *Endpoint) Ended() bool { return e.closing.ended.Load() }

// Close ends every operation with ErrClosed and stops the endpoint, after peers were sent
// what they still need to complete messages that arrived, see [ope.Pools.HasPending]. After it
// has returned nothing touches the application's buffers. Any goroutine.
func (e *Endpoint) Close(ctx context.Context) error { return e.closing.wait(ctx) }
