package efatest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
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
	sent    int // messages
	struck  bool
	pool    buffers
	stats   map[string]uint64
	errs    []error
	over    bool // the world has given up: what fails now says nothing
}

// host is what endpoints share.
type host struct {
	dev *efatest.Device
	fab *efa.Fabric
	dom *efa.Domain
	av  *efa.AddressVector
}

// node is an endpoint and what its programs know.
type node struct {
	run     *run
	id      int
	plan    *nodePlan
	host    *host
	ep      *efa.Endpoint
	sq, rq  *efa.Queue
	sends   *efa.Counter
	recvs   *efa.Counter
	addr    efa.Address
	raw     efa.RawAddr
	handles map[int]efa.Addr
	posted  []*receive  // everything, for the model
	waiting []*incoming // posted and without outcome, in order

	sendsOut, recvsOut int    // posted, no outcome seen
	submitted, unsure  uint64 // sends that were accepted, and blocking ones that may have been
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
	r := &run{p: p, hosts: make(map[int]*host), stats: make(map[string]uint64), msgs: p.msgs}
	var err error
	r.w, err = efatest.New(efatest.Config{Seed: p.seed, Fabric: p.fabric, MaxTime: time.Minute, Log: log})
	if err != nil {
		return nil, err
	}
	r.w.Logf("%v", p)
	for _, rule := range p.rules {
		if _, err := r.w.Fabric().AddRule(rule); err != nil {
			return nil, err
		}
	}
	for i, np := range p.nodes {
		if r.hosts[np.host] == nil {
			if r.hosts[np.host], err = r.newHost(np, sim.DeviceConfig{}); err != nil {
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

func (r *run) newHost(np *nodePlan, dc sim.DeviceConfig) (*host, error) {
	h := &host{}
	var err error
	if h.dev, err = r.w.Device(dc); err != nil {
		return nil, err
	}
	if h.fab, err = efa.Open(efa.Config{Device: h.dev}); err != nil {
		return nil, err
	}
	if h.dom, err = h.fab.OpenDomain(efa.DomainConfig{Shards: np.shards}); err != nil {
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
	n.sends, n.recvs = h.dom.NewCounter(), h.dom.NewCounter()
	cfg := np.cfg
	cfg.AV, cfg.SendQueue, cfg.RecvQueue, cfg.SendCounter, cfg.RecvCounter = h.av, n.sq, n.rq, n.sends, n.recvs
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
	r.cast = append(r.cast, n)
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
	n.handles[to] = h
	return h
}

// forgets tells whether n never knew one who was replaced since: to insert its
// address now would make it the newer of the two.
func (n *node) forgets(to int) bool {
	_, known := n.handles[to]
	return !known && n.run.cast[to].replaced
}

// whois finds the endpoint with an address; -1: there is none.
func (r *run) whois(raw efa.RawAddr) int {
	for _, n := range r.cast {
		if n.raw == raw {
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
			r.close(h)
		}
	}
	for k, name := range faults {
		r.stats["fault."+name] += r.w.Fabric().Count(k)
	}
	r.pool.check(r)
}

func (r *run) close(h *host) {
	for _, c := range []io.Closer{h.av, h.dom, h.fab, h.dev} {
		if err := c.Close(); err != nil {
			r.fail("close %T: %w", c, err)
		}
	}
}

var eventNames = map[efa.EventKind]string{
	efa.PeerFailed: "peer failed", efa.MemoryPressure: "memory pressure", efa.MemoryRelieved: "memory relieved",
	efa.DeviceFailed: "device failed", efa.NewPeer: "new peer",
}

var faults = map[sim.Fault]string{
	sim.FaultQueueFull: "queue full", sim.FaultRNR: "RNR", sim.FaultUnknownAH: "unknown sender",
	sim.FaultRefuseQP: "refuse queue pair", sim.FaultDelay: "delay", sim.FaultLateStatus: "late status",
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
	if held := stats["MemoryHeld"]; held > 0 && n.run.p.flavor == calm {
		n.run.fail("endpoint %d holds %d B of messages although all were received", n.id, held)
	}
	for e, ok := n.ep.TryEvent(); ok; e, ok = n.ep.TryEvent() {
		n.run.w.Logf("event %v of endpoint %d: %v %v", eventNames[e.Kind], n.id, e.Address, e.Err)
		n.run.stats["event "+eventNames[e.Kind]]++
	}
	n.run.w.Logf("close endpoint %d", n.id)
	return errors.Join(n.ep.Close(), n.sq.Close(), n.rq.Close())
}

// died tells whether the outcome of something between a and b may be anything.
func (r *run) died(a, b int) bool { return r.cast[a].doomed || r.cast[b].doomed }

// buffers are kept for another use, full of poison so that writing to them when
// they are nobody's shows.
type buffers struct {
	free [32][][]byte
}

const poison = 0xdd

var poisoned = bytes.Repeat([]byte{poison}, 1<<16)

func fillPoison(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, poisoned):]
	}
}

func isPoison(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(poisoned))
		if !bytes.Equal(b[:n], poisoned[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

func (p *buffers) get(r *run, n int) []byte {
	c := bits.Len(uint(max(n, 64) - 1))
	if l := len(p.free[c]); l > 0 {
		b := p.free[c][l-1]
		p.free[c] = p.free[c][:l-1]
		if !isPoison(b) {
			r.fail("somebody wrote to a buffer after its operation had ended")
		}
		return b[:n]
	}
	b := make([]byte, 1<<c)
	fillPoison(b)
	return b[:n]
}

func (p *buffers) put(b []byte) {
	b = b[:cap(b)]
	fillPoison(b)
	c := bits.Len(uint(len(b) - 1))
	p.free[c] = append(p.free[c], b)
}

// check looks at what lies in the pool when all is over.
func (p *buffers) check(r *run) {
	for _, list := range p.free {
		for _, b := range list {
			if !isPoison(b) {
				r.fail("somebody wrote to a buffer after its operation had ended")
			}
		}
	}
}

// pieces cuts b into n parts.
func pieces(b []byte, n int) [][]byte {
	var list [][]byte
	for i := range n {
		list = append(list, b[len(b)*i/n:len(b)*(i+1)/n])
	}
	return list
}
