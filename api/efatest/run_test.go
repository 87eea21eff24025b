package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// run is one seed being played.
type run struct {
	p     *plan
	w     *efatest.World
	hosts map[int]*host
	cast  []*node // endpoints; one that comes back is another
	msgs  []*message
	stamp int // of what programs did, in order
	// sending is how many programs may still send.
	sending int
	sent    int // tasks begun
	struck  bool
	pool    buffers
	risks   map[[2]int]int // requests that may be refused, by requester and target
	logs    bool
	ways    *ways // nil: nothing is compared
	judges  judges
	moments *moments
	raws    map[sim.Endpoint]efa.RawAddr // the endpoint at each place
	stats   map[string]uint64
	errs    []error
	over    bool // the world has given up: later failures mean nothing
}

// maxTime is more than any seed needs.
const maxTime = 20 * time.Second

// host is shared by endpoints.
type host struct {
	dev    *efatest.Device
	near   *efatest.Device // or nil
	whole  efa.Device      // of both
	fab    *efa.Fabric
	dom    *efa.Domain
	av     *efa.AddressVector
	pool   pool
	stores []*store
	closed bool
}

// node is an endpoint and its programs' state.
type node struct {
	run     *run
	id      int
	plan    *nodePlan
	host    *host
	ep      *efa.Endpoint
	sq, rq  *efa.Queue
	sends   *efa.Counter // and writes, reads and atomics
	recvs   *efa.Counter
	writes  *efa.Counter // of peers, with data
	addr    efa.Address
	raw     efa.RawAddr // on the network that all are on
	near    efa.RawAddr // on another
	handles map[int]efa.Addr
	posted  []*receive  // everything, for the model
	waiting []*incoming // posted and without outcome, in order
	started []*deed     // those with an efa.Op
	deeds   []*deed     // by the token of their completions, less 1
	takes   []*incoming // the same of receives
	wrote   []*access   // writes that have begun
	unheard []*access   // updates that have succeeded, but may yet take effect

	sendsOut, recvsOut int    // posted, no outcome seen
	submitted, unsure  uint64 // deeds that were accepted, and blocking ones that may have been
	discarded, told    int    // messages thrown away, writes of peers heard of
	doomed             bool   // it died, or will
	diedAt             time.Duration
	closed             bool
	replaced           bool  // it came back as another
	removed            *node // from the address vector, for a while
	removing           bool  // is under way
}

func (r *run) fail(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	r.w.Logf("FAIL %v", err)
	if len(r.errs) < 10 && !r.over {
		r.errs = append(r.errs, err)
	}
}

func (r *run) tick() int {
	r.stamp++
	return r.stamp
}

func newRun(p *plan, log io.Writer) (*run, error) {
	r := &run{
		p: p, hosts: make(map[int]*host), stats: make(map[string]uint64), msgs: p.msgs, risks: make(map[[2]int]int),
		logs: log != nil,
	}
	if p.compared {
		r.ways = newWays()
	}
	var err error
	fabric := p.fabric
	r.moments, fabric.Hook = newMoments(r), r.observe
	r.w, err = efatest.New(efatest.Config{Seed: p.seed, Fabric: fabric, MaxTime: maxTime, Log: log})
	if err != nil {
		return nil, err
	}
	if p.queued {
		r.w.QueueAll()
	}
	r.w.Logf("%v", p)
	for _, rule := range p.rules {
		if _, err := r.w.Fabric().AddRule(rule); err != nil {
			return nil, err
		}
	}
	for i, np := range p.nodes {
		if r.hosts[np.host] == nil {
			hp := p.hosts[np.host]
			if r.hosts[np.host], err = r.newHost(hp, hp.dev, device.GID{}); err != nil {
				return nil, err
			}
			if err := r.open(r.hosts[np.host], hp); err != nil {
				return nil, err
			}
		}
		if err := r.join(np, r.hosts[np.host], i == p.victim && p.flavor == casualty); err != nil {
			return nil, err
		}
	}
	for _, n := range r.cast {
		if n.plan.know {
			for _, to := range r.cast {
				n.handle(to.id)
			}
		}
	}
	return r, nil
}

func (r *run) newHost(hp *hostPlan, dc sim.DeviceConfig, near device.GID) (*host, error) {
	h := &host{}
	var err error
	if h.dev, err = r.w.Device(dc); err != nil {
		return nil, err
	}
	h.whole = h.dev
	if hp.near > 0 {
		dc.Name, dc.Net, dc.GID = fmt.Sprintf("near%d", hp.near), hp.near, near
		if h.near, err = r.w.Device(dc); err != nil {
			return nil, err
		}
		if h.whole, err = efa.JoinDevices(h.near, h.dev); err != nil {
			return nil, err
		}
	}
	if h.fab, err = efa.Open(r.p.watch.config(h)); err != nil {
		return nil, err
	}
	if h.dom, err = h.fab.OpenDomain(efa.DomainConfig{Shards: hp.shards, Registrations: hp.kept}); err != nil {
		return nil, err
	}
	h.av = h.dom.NewAddressVector()
	return h, nil
}

// join adds an endpoint to the cast.
func (r *run) join(np *nodePlan, h *host, doomed bool) error {
	n := &node{run: r, id: len(r.cast), plan: np, host: h, handles: make(map[int]efa.Addr), doomed: doomed}
	var err error
	if n.sq, err = h.dom.NewQueue(np.sendQ); err != nil {
		return err
	}
	if n.rq, err = h.dom.NewQueue(np.recvQ); err != nil {
		return err
	}
	n.sends, n.recvs, n.writes = h.dom.NewCounter(), h.dom.NewCounter(), h.dom.NewCounter()
	cfg := np.cfg
	cfg.AV, cfg.SendQueue, cfg.RecvQueue = h.av, n.sq, n.rq
	cfg.SendCounter, cfg.WriteCounter, cfg.ReadCounter = n.sends, n.sends, n.sends
	cfg.RecvCounter, cfg.RemoteWriteCounter = n.recvs, n.writes
	cfg.Arrivals = n.counts()
	if n.ep, err = h.dom.NewEndpoint(cfg); err != nil {
		return err
	}
	err = n.ep.Enable(context.Background())
	for ; errors.Is(err, device.ErrNoMemory); err = n.ep.Enable(context.Background()) {
		r.stats["refused"]++ // by a rule; another try is allowed
	}
	if err != nil {
		return err
	}
	n.addr = n.ep.Address()
	n.raw, _ = n.addr.Raw("sim")
	n.near, _ = n.addr.Raw("near")
	r.cast = append(r.cast, n)
	r.judgeOf(n)
	r.w.Logf("endpoint %d is %v", n.id, n.addr)
	return nil
}

// handle inserts the address of another if that was not done.
func (n *node) handle(to int) efa.Addr {
	if h, ok := n.handles[to]; ok {
		return h
	}
	h, err := n.host.av.Insert(n.run.cast[to].addr)
	if err != nil {
		n.run.fail("insert the address of %d at %d: %w", to, n.id, err)
	}
	n.checkPath(n.run.cast[to], h)
	n.handles[to] = h
	return h
}

// checkPath looks whether the device for a peer is the best that both have.
func (n *node) checkPath(to *node, h efa.Addr) {
	near := n.run.p.at(n.plan.host).near
	if near == 0 {
		return
	}
	want := n.host.dev
	if near == n.run.p.at(to.plan.host).near {
		want = n.host.near
	}
	if got, err := n.host.av.Device(h); got != want.Info().Name {
		n.run.fail("%d reaches %d by %q, %w, not by %q", n.id, to.id, got, err, want.Info().Name)
	}
	n.run.stats[map[bool]string{true: "path near", false: "path far"}[want == n.host.near]]++
}

// forgets reports whether n never knew an endpoint that was replaced since: to
// insert its address now would make it the newer of the two.
func (n *node) forgets(to int) bool {
	_, known := n.handles[to]
	return !known && n.run.cast[to].replaced
}

// whois finds the endpoint with an address; -1: there is none.
func (r *run) whois(raw efa.RawAddr) int {
	for _, n := range r.cast {
		if n.raw == raw || n.near == raw {
			return n.id
		}
	}
	return -1
}

// finish takes the counters and closes everything that is open.
func (r *run) finish() {
	ctx := context.Background()
	for _, n := range r.cast {
		if err := n.leave(ctx); err != nil {
			r.fail("close endpoint %d: %w", n.id, err)
		}
	}
	for i := range r.p.nodes {
		if h := r.hosts[i]; h != nil {
			r.close(h, false)
		}
	}
	for k, name := range faults {
		r.stats["fault."+name] += r.w.Fabric().Count(k)
	}
	r.pool.check(r)
}

func (r *run) close(h *host, lost bool) {
	h.closed = true
	r.checkStores(h, lost || r.p.flavor == casualty && r.hosts[r.p.nodes[r.p.victim].host] == h)
	if err := r.p.watch.collect(h.dev); err != nil {
		r.fail("collect metrics: %w", err)
	}
	for _, c := range []io.Closer{h.av, h.dom, h.fab, h.whole} {
		if err := c.Close(); err != nil {
			r.fail("close %T: %w", c, err)
		}
	}
}

var eventNames = map[efa.EventKind]string{
	efa.PeerFailed: "peer failed", efa.PeerClosed: "peer closed", efa.MemoryPressure: "memory pressure", efa.MemoryRelieved: "memory relieved",
	efa.BadPacket: "bad packet", efa.StrangersCrowded: "strangers crowded", efa.StrangersRelieved: "strangers relieved",
	efa.PeerPressure: "peer pressure", efa.PeerRelieved: "peer relieved",
	efa.DeviceFailed: "device failed", efa.NewPeer: "new peer", efa.AccessRefused: "access refused",
}

var faults = map[sim.Fault]string{
	sim.FaultQueueFull: "queue full", sim.FaultRNR: "RNR", sim.FaultUnknownAH: "unknown sender",
	sim.FaultRefuseQP: "refuse queue pair", sim.FaultDelay: "delay", sim.FaultLateStatus: "late status",
	sim.FaultRefuseMR: "refuse memory region", sim.FaultRefuseAH: "refuse address handle", sim.FaultStatus: "status",
}

// leave closes an endpoint.
func (n *node) leave(ctx context.Context) error {
	if n.closed {
		return nil
	}
	n.closed = true
	stats, err := n.ep.Stats(ctx)
	if err != nil && !n.doomed {
		return err
	}
	for name, v := range stats {
		n.run.stats[name] += v
	}
	n.checkStats(stats)
	for e, ok := n.ep.TryEvent(); ok; e, ok = n.ep.TryEvent() {
		n.run.w.Logf("event %v of endpoint %d: %v %v", eventNames[e.Kind], n.id, e.Address, e.Err)
		n.run.stats["event "+eventNames[e.Kind]]++
		n.checkEnd(e)
	}
	n.run.w.Logf("close endpoint %d", n.id)
	return errors.Join(n.ep.Close(), n.sq.Close(), n.rq.Close())
}

// checkStats checks counters of events that must not happen between peers that keep
// to the protocol, and levels that must be zero at the end.
func (n *node) checkStats(stats map[string]uint64) {
	r := n.run
	names := []string{"BadShort", "BadType", "BadVersion", "StaleMsgID", "NoRoom", "PeerOverMemory", "Violations"}
	if r.p.flavor == calm {
		names = append(names, "BadLength", "MemoryHeld", "TxInUse", "RxInUse", "StaleConnID", "NoAddress", "PeerDown", "PeersFailed")
	}
	if r.p.flavor == calm && !r.p.broken && r.stats["store closed"] == 0 { // nothing ends before its time
		names = append(names, "BadID")
	}
	for _, name := range names {
		if v := stats[name]; v > 0 {
			r.fail("endpoint %d: %s = %d", n.id, name, v)
		}
	}
}

// died reports whether the outcome of something between a and b may be anything.
func (r *run) died(a, b int) bool { return r.cast[a].doomed || r.cast[b].doomed }
