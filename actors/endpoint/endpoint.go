package endpoint

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/ring"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Endpoint is the actor of one endpoint.
//
//   - It owns the maps of peers, the matcher, the posted receives, the pools of
//     operations.
//   - The application reaches it through the request ring; peers hand it RTMs in
//     order, strangers and their own end; the device queue packets of strangers.
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
	guard shard.Ref
	pools *ope.Pools
	reqs  *ring.MPSC[ope.Request]
	addr  wire.RawAddr

	table     *match.Table
	links     []*peer.Link // by handle
	routes    routes
	strangers int
	targets   [wire.MaxIOV]ope.Target
	claims    map[uint64]claim // by the id of the request that claimed
	peeked    ope.Result       // scratch, which a Sink must not keep
	untold    []written        // oldest first
	replaced  []*peer.Link     // peers whose place another has taken
	pressed   bool             // memory pressure
	span      uint64           // in the trail
	trickle   shard.Timer
	trickleM  trickleMsg

	state     state
	handling  bool        // direct, or else the request at the head of the ring
	direct    ope.Request // came without the ring; its Kind is 0 if there is none
	injection injection
	closed    shard.Signal
	late      sync.Mutex // of those who take requests when closed is set
	cause     error      // why the endpoint ended, if not by Close
	ended     atomic.Bool

	linger     shard.Timer // of a Close that waits for what peers are owed
	lingerM    closeStep
	lingerStep time.Duration
	lingerEnd  clock.Time
}

type state uint8

const (
	open state = iota
	failing
	flushing
	stopped
)

type trickleMsg struct{ shard.Message }

// Open makes the queue pair and the actors. It may be called by any goroutine.
func Open(cfg Config) (*Endpoint, error) {
	cfg.setDefaults()
	qp, err := cfg.Device.OpenQP(device.QPConfig{
		SQDepth: cfg.SQ, RQDepth: cfg.RQ, QPN: cfg.QPN, QKey: cfg.ConnID,
		RNRRetry: cfg.RNRRetry, Notify: cfg.Shard.Wake,
	})
	if err != nil {
		return nil, fmt.Errorf("open queue pair on %s: %w", cfg.Device.Info().Name, err)
	}
	info := cfg.Device.Info()
	e := &Endpoint{
		cfg:  cfg,
		reqs: ring.NewMPSC[ope.Request](cfg.Requests),
		addr: wire.MakeRawAddr(info.GID, qp.QPN(), cfg.ConnID),
	}
	paths := pathsOf(qp, &info)
	e.env = &peer.Env{
		Sh: cfg.Shard, Addr: e.addr, Paths: e.peerPaths(paths), MTU: info.MTU, Config: cfg.Peer,
		Pool: &peer.Pool{}, Log: cfg.Log, Trail: cfg.Trail,
	}
	e.queue = device.NewQueue(device.QueueConfig{
		Shard: cfg.Shard, QP: qp, SQ: cfg.SQ, RQ: cfg.RQ, Router: e, Refill: 8,
	})
	e.env.Q = e.queue
	e.pools = ope.NewPools(e.env, policyOn(cfg.Policy, &info), e.spawnOp)
	e.pools.Paths = policies(cfg.Policy, paths)
	e.pools.DetachLimit = uint64(cfg.DetachLimit)
	e.pools.Unlist = e.unlist
	e.pools.Info, e.pools.Device, e.pools.Regions = info, cfg.Device, cfg.Regions
	e.pools.OnWritten = e.written
	if f := &e.env.Config.Features; info.LocalKeys && f.Has(wire.FeatureRDMARead) {
		if err := e.pools.Reserve(); err != nil {
			cfg.Log.Warn("no RDMA read: its memory was refused", "err", err)
			f.Clear(wire.FeatureRDMARead)
		}
	}
	e.env.Ops = e.pools
	if e.ref, err = cfg.Shard.Spawn("", func() actor.Actor { return e }); err != nil {
		_ = qp.Close() // the shard's error says more
		e.pools.CloseMemory()
		return nil, err
	}
	cfg.Shard.Post(e.ref, &begin{})
	return e, nil
}

// Submit hands a request to the endpoint: false if the ring is full. The request
// is copied. Any goroutine.
func (e *Endpoint) Submit(r *ope.Request) bool {
	if !e.reqs.Push(r) {
		return false
	}
	if e.closed.IsSet() {
		e.refuse()
		return true
	}
	e.cfg.Shard.Wake()
	return true
}

// Serve has the requests submitted so far begin at once if the caller can run the
// shard, rather than in its next turn. Any goroutine.
func (e *Endpoint) Serve() { e.cfg.Shard.Serve(e.ref, e) }

// Ended tells whether the endpoint takes no more requests.
func (e *Endpoint) Ended() bool { return e.ended.Load() }

// Receive is the endpoint's message switch.
func (e *Endpoint) Receive(ctx actor.Context) {
	e.ctx = ctx
	switch m := ctx.Message().(type) {
	case *peer.Arrive:
		e.onArrive(m.Pkt)
	case *device.Arrived:
		e.onStranger(m.Pkt)
	case *peer.Stranger:
		e.onOtherConnID(m)
	case *peer.Wrote:
		e.written(m.Link, m.Len, uint64(m.Data))
		m.Free()
	case *device.Written:
		e.onStrangersWrite(m)
	case *device.Refused:
		e.onStrangersRefusal(m)
	case *peer.Intruded:
		e.onIntruded(m)
	case *peer.Down:
		e.onDown(m.Link, m.Err)
	case *device.Gone:
		// Nobody that we ever talked to.
	case *trickleMsg:
		e.onTrickle()
	case *closeStep:
		e.onCloseStep()
	case *deviceDown:
		e.onDeviceDown(m.err)
	case *begin:
		e.start()
	case *actor.Restarting:
		e.crashed()
	}
}

// begin makes the actor spawn its children and start to poll.
type begin struct{ shard.Message }

// start spawns the device queue and begins to poll.
func (e *Endpoint) start() {
	e.span = e.env.Trail.Next()
	e.env.Trail.Put(e.span, trail.EndpointBegin, 0, 0, 0)
	e.env.Trail.Locate(e.span, &e.addr)
	e.env.Endpoint = e.ref
	e.table = match.NewSeeded(e.cfg.Shard.Rand().Uint64())
	e.qref = e.spawnChild("queue", func() actor.Actor { return e.queue })
	e.guard = e.spawnChild("guard", func() actor.Actor { return guard{e} })
	// Requests come first: a packet that a receive waits for by then is received at once.
	e.cfg.Shard.AddPoller(e.ref, e)
	e.cfg.Shard.AddPoller(e.qref, e.queue)
}

func (e *Endpoint) spawnChild(name string, p actor.Producer) shard.Ref {
	return e.cfg.Shard.SpawnChild(e.ctx, name, p)
}

func (e *Endpoint) spawnOp(p actor.Producer) shard.Ref { return e.spawnChild("", p) }
