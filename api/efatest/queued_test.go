package efatest_test

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

// ways is what a run leaves to be compared with another run of its seed.
type ways struct {
	outcomes map[string]string    // how each message and access ended, by its name
	received map[int]int          // bytes of each message that was received, by its ID
	requests map[[2]int]*requests // by sender and receiver
	next     map[sequence]uint32  // the msg_id that comes next
}

// sequence is what msg_ids count: what one queue pair sends to one connid.
type sequence struct {
	from, to sim.Endpoint
	connid   uint32
}

// requests are the messages and the atomics of a pair, by msg_id.
type requests struct{ messages, atomics map[uint32]*request }

// request is what the packets that arrived of a message or atomic said.
type request struct {
	what string // what they must say: tag, data, bytes in all, operation, place
	typ  wire.Type
	opts [2]bool        // there is a raw address, a connid
	segs map[uint64]int // bytes by offset
	// reads: the receiver was to read the data. If it sent READ_NACK, another packet took
	// the place of that.
	reads bool
}

func readBased(t wire.Type) bool {
	switch t {
	case wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM, wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM:
		return true
	default:
		return false
	}
}

func (s *ways) of(pair [2]int) *requests {
	of := s.requests[pair]
	if of == nil {
		of = &requests{make(map[uint32]*request), make(map[uint32]*request)}
		s.requests[pair] = of
	}
	return of
}

func newWays() *ways {
	return &ways{
		outcomes: make(map[string]string), received: make(map[int]int), requests: make(map[[2]int]*requests),
		next: make(map[sequence]uint32),
	}
}

// see takes a packet with a msg_id from the fabric's hook.
func (s *ways) see(r *run, e sim.Event) {
	b := packet(e)
	if t, ok := e.Type(); !ok || !wire.Type(t).HasMsgID() {
		return
	}
	v, err := wire.Open(b)
	if err != nil {
		r.fail("packet #%d: %w", e.Seq, err)
		return
	}
	id, ok := v.MsgID()
	if !ok {
		r.fail("packet #%d: too short for its msg_id", e.Seq)
		return
	}
	if e.Kind == sim.EventPost {
		k := sequence{e.From, e.To, e.QKey}
		next, ok := s.next[k]
		if first := r.firstMsgID(e.From); !ok && id != first {
			r.fail("packet #%d: the first msg_id is %d, not %d", e.Seq, id, first)
		} else if ok && int32(id-next) > 0 {
			r.fail("packet #%d: msg_id %d follows on %d", e.Seq, id, next-1)
		}
		if !ok || id == next {
			s.next[k] = id + 1
		}
		return
	}
	if e.Status == 0 {
		s.arrived(r, e, id, b)
	}
}

func (r *run) firstMsgID(at sim.Endpoint) uint32 {
	return r.cast[r.whois(r.raws[at])].plan.knobs().FirstMsgID
}

// arrived takes a packet that was delivered.
func (s *ways) arrived(r *run, e sim.Event, id uint32, b []byte) {
	pkt, n, err := wire.Decode(b)
	if err != nil {
		r.fail("packet #%d: %w", e.Seq, err)
		return
	}
	pair := [2]int{r.whois(r.raws[e.From]), r.whois(r.raws[e.To])}
	of := s.of(pair)
	var o *wire.Options
	var tag, total, off uint64
	list, data := of.messages, len(b)-n
	switch p := pkt.(type) {
	case *wire.EagerRTM:
		o, tag, total = &p.Options, p.Tag, uint64(data)
	case *wire.MediumRTM:
		o, tag, total, off = &p.Options, p.Tag, p.MsgLength, p.SegOffset
	case *wire.LongCTSRTM:
		o, tag, total = &p.Options, p.Tag, p.MsgLength
	case *wire.LongReadRTM:
		o, tag, total = &p.Options, p.Tag, p.MsgLength
	case *wire.RuntReadRTM:
		o, tag, total, off = &p.Options, p.Tag, p.MsgLength, p.SegOffset
	case *wire.RTA:
		o, list = &p.Options, of.atomics
	default:
		r.fail("packet #%d has a msg_id and is a %T", e.Seq, pkt)
		return
	}
	what := fmt.Sprintf("tagged %v tag %#x data %v %#x, %d B", pkt.Type().IsTagged(), tag, o.HasCQData, o.CQData, total)
	if a, ok := pkt.(*wire.RTA); ok {
		what = fmt.Sprintf("%v %v %v at %v, operand %x", a.Type(), a.Op, a.Datatype, a.RMAIOV[:a.RMAIOVCount], b[n:])
	}
	m := list[id]
	if m == nil {
		m = &request{what: what, segs: make(map[uint64]int)}
		list[id] = m
	}
	if m.what != what {
		r.fail("packet #%d: %s, another packet of msg_id %d: %s", e.Seq, what, id, m.what)
	}
	t := pkt.Type()
	m.typ, m.opts = t, [2]bool{o.HasRawAddr, o.HasConnID}
	m.reads = m.reads || readBased(t)
	m.segs[off] = data
}

// errorClass is the kind of an outcome.
func errorClass(err error) string {
	if err == nil {
		return "ok"
	}
	for _, e := range []error{
		efa.ErrTimedOut, efa.ErrNotSupported, efa.ErrPeerFailed, efa.ErrPeerAborted, efa.ErrAccess, efa.ErrClosed, efa.ErrCanceled,
	} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return err.Error()
}

// ended notes an outcome.
func (r *run) ended(name string, err error) {
	if r.ways != nil {
		r.ways.outcomes[name] = errorClass(err)
	}
}

// TestSeedsQueued plays seeds as they are, where a handler is called at once when nothing
// is ahead of its message, and again with every message between actors in the ring of its
// shard ([shard.Shard.QueueAll]). The model, the judges and all other checks of TestSeeds
// see both runs, and the second is to bring about what TestSeeds must. An actor of the second run hears later of what concerns it, so packets
// to several peers leave in another order, other packets meet faults, another window is
// granted or another receive is matched. What does not depend on that is the same:
//
//   - how each operation ends, by its kind of error, if nothing that has a time ends it:
//     a timeout of its own, a buffer or store that is closed under it, the death or
//     removal of one of its sides, a refusal, a lack of memory, a broken device. An access
//     that one of the runs did not begin, since its slot was in use, is left out.
//   - in both runs and always, each queue pair gives the msg_ids to a peer without a gap,
//     in the order in which their first packets leave.
//   - if the programs misbehave in no way and RDMA works: which message each msg_id of a
//     pair stands for, by its tag, data and bytes in all, which atomic, by its
//     operation, type, place and operand, and that both arrived. Where an atomic was not
//     begun, the order of the messages.
//   - there, too, the types of a request's packets and the offset and bytes of each, if its
//     optional headers are the same in both runs, except that a read-based one (§4.1) is
//     one only while few others are under way.
//   - there, too, the bytes of each message that was received, if they tell its name.
func TestSeedsQueued(t *testing.T) {
	count := *flagSeeds
	if count == 0 {
		count = less(queuedSeeds)
	}
	var (
		next atomic.Uint64
		mu   sync.Mutex
		wg   sync.WaitGroup
		sum  comparison
		did  = make(map[string]uint64) // by the runs with QueueAll
	)
	next.Store(*flagFirst)
	last := *flagFirst + uint64(count)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := next.Add(1) - 1; seed < last; seed = next.Add(1) - 1 {
				c := compareSeed(seed)
				mu.Lock()
				for _, err := range c.errs {
					t.Errorf("seed %#x (%v): %v", seed, newPlan(seed), err)
				}
				sum.outcomes += c.outcomes
				sum.received += c.received
				sum.requests += c.requests
				sum.packets += c.packets
				for name, v := range c.did {
					did[name] += v
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d seeds: the same in both runs were %d outcomes, %d messages received, %d requests, of these %d packet by packet",
		count, sum.outcomes, sum.received, sum.requests, sum.packets)
	require.Positive(t, sum.outcomes)
	if count < 24 {
		return // perhaps none of them is calm
	}
	require.Positive(t, min(sum.received, sum.requests, sum.packets))
	require.Greater(t, sum.packets, sum.requests*9/10)
	judgeCoverage(t, did, count)
}

// TestSeedsQueuedAgain plays seeds of TestSeedsQueued that have failed: 0x1a5, since
// PEER_ERROR overtook a packet of its message that came without an address handle, and
// 0xf2, since back-off began between the grant of a msg_id and its first packet.
func TestSeedsQueuedAgain(t *testing.T) {
	for _, seed := range []uint64{0x1a5, 0xf2} {
		require.Empty(t, compareSeed(seed).errs, "seed %#x", seed)
	}
}

// comparison counts what was compared, and has what differs.
type comparison struct {
	outcomes, received, requests, packets int
	did                                   map[string]uint64 // by the run with QueueAll
	errs                                  []error
}

func (c *comparison) differ(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func compareSeed(seed uint64) *comparison {
	c := &comparison{}
	var runs [2]*run
	for i := range runs {
		p := newPlan(seed)
		p.compared, p.queued = true, i == 1
		var err error
		if runs[i], err = playPlan(p, nil); err != nil {
			c.differ("queued %v: %w", p.queued, err)
			return c
		}
	}
	c.did = runs[1].stats
	p, a, b := runs[0].p, runs[0].ways, runs[1].ways
	uneven := make(map[[2]int]bool) // pairs of which the atomics are not the same
	for _, t := range p.tasks {
		name := nameOf(t)
		x, y := a.outcomes[name], b.outcomes[name]
		if t.a != nil && (x == "" || y == "") {
			if x != y && t.a.kind == update {
				uneven[[2]int{t.a.from, t.a.to}] = true
			}
			continue
		}
		if !p.settled(t) {
			continue
		}
		if c.outcomes++; x != y {
			c.differ("%v: %q, queued %q", t, x, y)
		}
	}
	if p.flavor != calm || p.broken {
		return c
	}
	for id, n := range a.received {
		if m, ok := b.received[id]; ok {
			if c.received++; m != n {
				c.differ("message %d: %d B received, queued %d", id, n, m)
			}
		}
	}
	pairs := maps.Clone(a.requests)
	maps.Copy(pairs, b.requests)
	for pair := range pairs {
		x, y := a.of(pair), b.of(pair)
		c.compare(pair, "messages", x.messages, y.messages, !uneven[pair])
		if !uneven[pair] {
			c.compare(pair, "atomics", x.atomics, y.atomics, true)
		}
	}
	return c
}

func nameOf(t task) string {
	if t.m != nil {
		return messageName(t.m)
	}
	return accessName(t.a)
}

func messageName(m *message) string { return fmt.Sprintf("message %d", m.ID) }
func accessName(a *access) string   { return fmt.Sprintf("access %d", a.id) }

// compare compares requests of a pair in the order of their msg_ids, and, with ids, these.
func (c *comparison) compare(pair [2]int, kind string, x, y map[uint32]*request, ids bool) {
	u, v := inOrder(x), inOrder(y)
	if len(u) != len(v) {
		c.differ("%v: %d %s, queued %d", pair, len(u), kind, len(v))
		return
	}
	for i := range u {
		q, w := x[u[i]], y[v[i]]
		c.requests++
		if ids && u[i] != v[i] || q.what != w.what {
			c.differ("%v: msg_id %d is %s, queued %d is %s", pair, u[i], q.what, v[i], w.what)
			return
		}
		if q.opts != w.opts || q.reads || w.reads {
			continue
		}
		c.packets++
		if q.typ != w.typ || !maps.Equal(q.segs, w.segs) {
			c.differ("%v: msg_id %d: %v %v, queued %v %v", pair, u[i], q.typ, q.segs, w.typ, w.segs)
		}
	}
}

// inOrder lists msg_ids in their order, which may pass over 0.
func inOrder(m map[uint32]*request) []uint32 {
	ids := slices.Collect(maps.Keys(m))
	slices.SortFunc(ids, func(x, y uint32) int { return int(int32(x - y)) })
	return ids
}

// settled reports whether a task that both runs begin has one outcome, whatever the
// schedule.
func (p *plan) settled(t task) bool {
	var from, to int
	if m := t.m; m != nil {
		if m.timeout > 0 || m.mem == doomed {
			return false
		}
		from, to = m.From, m.To
	} else {
		a := t.a
		if a.timeout > 0 || a.mem == doomed || a.wrong != right || a.store.closeAt > 0 || p.pressed(a.from) || p.pressed(a.to) {
			return false
		}
		from, to = a.from, a.to
	}
	switch {
	case p.broken:
		return false
	case p.flavor == casualty:
		return from != p.victim && to != p.victim
	case p.flavor == fickle:
		return p.remover == p.removed || from != p.remover && to != p.remover
	default:
		return true
	}
}
