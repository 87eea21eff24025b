package efa

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/ring"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/runtime/sys"
)

// OpID names an accepted operation of an endpoint, for Cancel and logs. It is
// never 0 and never used again.
type OpID uint64

// Kind says what a completion is of.
type Kind uint8

// The kinds of completion.
const (
	Sent     Kind = iota + 1
	Received      // a message
	Wrote         // to a peer's memory
	Fetched       // a peer's memory, by a read
	Updated       // a peer's memory, by an atomic of any form
	// RemoteWrite: a peer has written N bytes with Data to memory here, and they
	// are there. No operation of ours is over by that: ID and Token are 0.
	// Where in memory they are, Data must tell. Writes without data are not
	// told of, but see EndpointConfig.RMAEvents; those that [Arrivals] counts are not either.
	RemoteWrite
	// Released: the buffer of a receive with Multi is the application's again, N bytes of it
	// were used, and nothing comes into it any more. It is the one outcome of the
	// receive, with the error that ended it if there was one, and follows those of the
	// messages in the buffer. Each message is a Received of its own, with the ID and
	// the Token of the receive, and Offset says where in the buffer it lies.
	Released
	// Peeked: a [PeekReq] has found a message, which Message describes as Peek does, or, if
	// Err is ErrNoMessage, none.
	Peeked
)

var kindNames = [...]string{"none", "sent", "received", "wrote", "fetched", "updated", "remote write", "released", "peeked"}

// String gives the name in small letters, "none" of 0.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// kinds are what the completions of requests are of. Requests that have none are not there. It
// has a power of two rows, so that no index needs a check.
var kinds = [numKinds]Kind{
	ope.KindSend: Sent, ope.KindWrite: Wrote, ope.KindRead: Fetched, ope.KindAtomic: Updated,
	ope.KindRecv: Received, ope.KindTake: Received, ope.KindPeek: Peeked, ope.KindClaim: Peeked,
	ope.KindWritten: RemoteWrite,
}

const numKinds = 16

// kindOf is what the completion of a request is of.
func kindOf(k ope.Kind, f ope.Flags) Kind {
	switch {
	case f&(ope.Multi|ope.Discard) == 0:
		return kinds[k%numKinds]
	case f&ope.Multi != 0:
		return Released
	default:
		return Peeked
	}
}

// Message describes a message that was received.
type Message struct {
	N       int    // bytes placed in the buffer
	From    Addr   // the sender's handle; NoAddr if it is in no address vector, see [Endpoint.Reply]
	Tag     uint64 // the sender's tag
	Data    uint64 // remote CQ data, if HasData
	HasData bool
	Tagged  bool
	raw     *RawAddr
}

// Raw is the sender's address, also when it is in no address vector (FI_SOURCE,
// FI_SOURCE_ERR); zero for a message that was sent.
func (m Message) Raw() RawAddr {
	if m.raw == nil {
		return RawAddr{}
	}
	return *m.raw
}

// String is one line: the bytes, the sender, and the tag and the data if there are any. A
// sender that is in no address vector is named by its address.
func (m Message) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d bytes from %s", m.N, m.sender())
	if m.Tagged {
		fmt.Fprintf(&b, ", tag %#x", m.Tag)
	}
	if m.HasData {
		fmt.Fprintf(&b, ", data %#x", m.Data)
	}
	return b.String()
}

// sender is what a message's sender is called.
func (m Message) sender() string {
	switch {
	case m.From < NoAddr:
		return "peer " + m.From.String()
	case m.raw != nil:
		return "stranger " + m.raw.String()
	default:
		return "nobody"
	}
}

// fill describes what r is the outcome of. Before that no message of a peer's was described.
func (m *Message) fill(k Kind, q *ope.Request, r *ope.Result) {
	f := q.Flags
	m.N, m.Tagged = r.N, f&ope.Tagged != 0
	if ofOurs>>(k%64)&1 != 0 {
		m.From, m.Tag, m.Data, m.HasData = Addr(q.Peer), q.Tag, q.Data, f&ope.HasData != 0
		return
	}
	m.From, m.raw = Addr(r.Peer), r.From
	m.Tag, m.Data, m.HasData = r.Tag, r.Data, r.HasData
}

// Completion is the outcome of one operation. A failed one stands in the queue in
// its place, with Err set.
type Completion struct {
	Kind  Kind
	ID    OpID
	Token uint64 // as given when the operation was posted
	Err   error
	// Protocol is the subprotocol that carried it: "eager", "long-CTS write",
	// "direct read" and so on, or "-" if none did.
	Protocol Protocol
	// Offset is where in the buffer of a receive with Multi the message begins, a multiple
	// of [MultiRecvAlign]; else 0.
	Offset int
	// Message describes what was received; of what began here N is the bytes
	// that were sent, written, fetched, or given to an atomic, and From the peer.
	Message
}

// Protocol is a subprotocol of Table 1.1.
type Protocol = ope.Proto

// String is one line: what has ended, how, and its message.
func (c Completion) String() string {
	var b strings.Builder
	b.WriteString(c.Kind.String())
	if c.ID != 0 {
		fmt.Fprintf(&b, " (operation %d)", uint64(c.ID))
	}
	if c.Err != nil {
		fmt.Fprintf(&b, ": %v", c.Err)
		return b.String()
	}
	switch c.Kind {
	case Received, RemoteWrite, Peeked:
		b.WriteString(": " + c.Message.String())
	default: // the peer is the one to which it went
		fmt.Fprintf(&b, ": %d bytes", c.N)
		if c.From < NoAddr {
			b.WriteString(", peer " + c.From.String())
		}
	}
	return b.String()
}

// fill makes a Completion of an outcome of an endpoint's, without allocating unless it failed.
// Before that it is zero.
func (c *Completion) fill(of *Endpoint, q *ope.Request, r *ope.Result) {
	f := q.Flags
	k := kindOf(q.Kind, f)
	c.Kind, c.ID, c.Token, c.Protocol = k, OpID(q.ID), q.Token, r.Proto
	c.Message.fill(k, q, r)
	if f&ope.Part != 0 { // of a receive with Multi
		c.Offset = int(q.Addr)
	}
	if r.Err != nil {
		c.Err = of.opError(q, r)
	}
}

// ofOurs are the kinds of completion that have no message of a peer's.
const ofOurs uint64 = 1<<Sent | 1<<Wrote | 1<<Fetched | 1<<Updated | 1<<Released

// Queue collects completions of posted operations (fi_cq). Any number of
// goroutines may read it, one at a time: while one waits in Read others wait their
// turn, and a TryRead may find nothing while another one takes. Completions of
// one endpoint come in the order in which they happened.
type Queue struct {
	dom   *Domain
	depth int
	used  atomic.Int64 // slots reserved by operations, or holding a completion
	many  atomic.Int64 // receives with Multi in progress, see keepOne

	reading  atomic.Uint64             // 1 while a goroutine takes
	sources  atomic.Pointer[[]*source] // one per bound endpoint
	next     int                       // source to look at first
	waiting  atomic.Bool
	signal   shard.Signal
	overflow overflow

	bindMu  sync.Mutex // of those who change sources
	readers ctxMutex   // of those who wait in Read
	bound   atomic.Bool
	closed  atomic.Bool
}

const (
	defaultDepth = 1024
	maxDepth     = 1 << 20
)

// TryRead moves completions that are there into dst and returns how many. With
// manual progress it also lets a shard that nobody runs do some work, so that
// polling alone makes progress.
func (q *Queue) TryRead(dst []Completion) int {
	n := q.take(dst)
	if n == 0 && len(dst) > 0 {
		q.progress()
		n = q.take(dst)
	}
	return n
}

// Read waits until there are completions, moves them into dst and returns how
// many, at least one unless the error says why not: that of ctx, ErrClosed when
// everything was read and the queue or all its endpoints are closed, ErrBadState
// if no endpoint uses it yet.
func (q *Queue) Read(ctx context.Context, dst []Completion) (int, error) {
	if len(dst) == 0 {
		return 0, callError("read queue", fmt.Errorf("%w: no room for a completion", ErrInvalid))
	}
	if err := q.readers.lock(ctx); err != nil {
		return 0, callError("read queue", err)
	}
	defer q.readers.unlock()
	return q.read(ctx, dst)
}

// ReadN waits until there are n completions, and moves them to the beginning of dst; it never
// takes more than n. If it ends before, the error says why, as that of Read does, and those that
// it has taken by then, which are as many as it returns, are in dst. ErrInvalid: n is not
// from 1 to len(dst).
//
// n may be more than the queue's depth: ReadN takes completions as they come. Other readers
// wait meanwhile, but a TryRead may take some before ReadN does.
func (q *Queue) ReadN(ctx context.Context, dst []Completion, n int) (int, error) {
	if n < 1 || n > len(dst) {
		return 0, callError("read queue", fmt.Errorf("%w: %d completions into room for %d", ErrInvalid, n, len(dst)))
	}
	if err := q.readers.lock(ctx); err != nil {
		return 0, callError("read queue", err)
	}
	defer q.readers.unlock()
	for got := 0; ; {
		k, err := q.read(ctx, dst[got:n])
		if got += k; err != nil || got == n {
			return got, err
		}
	}
}

func (q *Queue) take(dst []Completion) int {
	list := *q.sources.Load()
	if !q.any(list) || !q.reading.CompareAndSwap(0, 1) {
		return 0
	}
	n, at := 0, q.next
	for range list {
		if at++; at >= len(list) {
			at = 0
		}
		if n += list[at].ring.Take(dst[n:]); n == len(dst) {
			break
		}
	}
	q.next = at
	made := n
	if q.overflow.n.Load() > 0 {
		n += q.overflow.take(dst[n:])
	}
	sys.StoreRelease(&q.reading, 0)
	q.used.Add(-int64(made)) // which is also between the store and the look at waiting
	if made > 0 {
		q.madeRoom(list)
	}
	if q.waiting.Load() && q.any(list) { // for whom this reader was in the way
		q.signal.Set()
	}
	return n
}

// any reports whether there is something to read.
func (q *Queue) any(list []*source) bool {
	for _, s := range list {
		if s.ring.Len() > 0 {
			return true
		}
	}
	return q.overflow.n.Load() > 0
}

// progress runs one turn of manual shards that nobody runs.
func (q *Queue) progress() {
	if q.dom.Progress() != ProgressManual {
		return
	}
	var last *shard.Shard
	for _, s := range *q.sources.Load() {
		if c := s.core.Load(); c != nil && c.sh != last {
			last = c.sh
			last.Drive()
		}
	}
}

// read is Read of the one reader whose turn it is.
func (q *Queue) read(ctx context.Context, dst []Completion) (int, error) {
	for {
		if n := q.take(dst); n > 0 {
			return n, nil
		}
		q.signal.Reset()
		q.waiting.Store(true)
		sh, dead := q.shardToRun()
		if n := q.take(dst); n > 0 {
			q.waiting.Store(false)
			return n, nil
		}
		err := dead
		if sh != nil {
			err = sh.Wait(ctx, &q.signal)
		}
		q.waiting.Store(false)
		if err != nil {
			if n := q.take(dst); n > 0 {
				return n, nil
			}
			if dead != nil {
				return 0, callError("read queue", dead)
			}
			return 0, callError("read queue", contextError(ctx, err))
		}
	}
}

// shardToRun is the shard whose progress a waiting reader makes, or why it need
// not wait.
func (q *Queue) shardToRun() (*shard.Shard, error) {
	for _, s := range *q.sources.Load() {
		if c := s.core.Load(); c != nil {
			return c.sh, nil
		}
	}
	switch {
	case q.closed.Load():
		return nil, fmt.Errorf("%w: the queue", ErrClosed)
	case q.bound.Load():
		return nil, fmt.Errorf("%w: all endpoints of the queue", ErrClosed)
	default:
		return nil, fmt.Errorf("%w: no endpoint uses the queue", ErrBadState)
	}
}

// wake has a reader that waits look again.
func (q *Queue) wake() {
	if q.waiting.Load() {
		q.signal.Set()
	}
}

// Close fails with ErrBusy while endpoints use the queue. Readers get ErrClosed.
func (q *Queue) Close() (err error) {
	defer formed("close queue", &err)
	q.bindMu.Lock()
	defer q.bindMu.Unlock()
	for _, s := range *q.sources.Load() {
		if s.core.Load() != nil {
			return fmt.Errorf("%w: an endpoint uses the queue", ErrBusy)
		}
	}
	q.closed.Store(true)
	q.wake()
	return nil
}

// reserveOne takes a slot, unless that needs a closer look: then reserve may.
func (q *Queue) reserveOne() bool {
	used := q.used.Load()
	return used < int64(q.depth) && q.many.Load() == 0 && q.used.CompareAndSwap(used, used+1)
}

// reserve takes slots for the completions of up to n operations, and returns how many.
func (q *Queue) reserve(n int) int {
	depth := int64(q.depth)
	if q.many.Load() > 0 {
		depth--
	}
	return q.reserveOf(depth, n)
}

func (q *Queue) reserveOf(depth int64, n int) int {
	for used := q.used.Load(); used < depth; used = q.used.Load() {
		got := min(int64(n), depth-used)
		if q.used.CompareAndSwap(used, used+got) {
			return int(got)
		}
	}
	return 0
}

// unreserve gives back the slots of n operations that did not begin. Meanwhile a peer's write
// may have found the queue full.
func (q *Queue) unreserve(n int) {
	q.used.Add(-int64(n))
	q.madeRoom(*q.sources.Load())
}

// keepOne sees to it that a slot is left which posted operations do not reserve, so that
// the messages of a receive with Multi, whose own slot is reserved, come out one by one at least.
// It reports whether there is one; leaveOne ends it with the receive.
func (q *Queue) keepOne() bool {
	q.many.Add(1)
	if q.used.Load() < int64(q.depth) {
		return true
	}
	q.many.Add(-1)
	return false
}

func (q *Queue) leaveOne() { q.many.Add(-1) }

// madeRoom lets the endpoints go on that found the queue full.
func (q *Queue) madeRoom(list []*source) {
	for _, s := range list {
		if s.behind.Load() {
			s.resume()
		}
	}
}

// bind adds an endpoint, and forgets those that were closed and have nothing left
// to read.
func (q *Queue) bind(c *Endpoint) (*source, error) {
	q.bindMu.Lock()
	defer q.bindMu.Unlock()
	if q.closed.Load() {
		return nil, fmt.Errorf("%w: the queue", ErrClosed)
	}
	var list []*source
	for _, s := range *q.sources.Load() {
		if s.core.Load() == c {
			return s, nil
		}
		if s.core.Load() != nil || s.ring.Len() > 0 {
			list = append(list, s)
		}
	}
	s := &source{q: q, of: c, ring: ring.NewSPSC[Completion](q.depth)}
	s.core.Store(c)
	list = append(list, s)
	q.sources.Store(&list)
	q.bound.Store(true)
	return s, nil
}

// unbind lets go of an endpoint that was closed, but not of its completions.
func (q *Queue) unbind(c *Endpoint) {
	for _, s := range *q.sources.Load() {
		s.core.CompareAndSwap(c, nil)
	}
	q.wake()
}

// readmit takes a source up again that was perhaps forgotten.
func (q *Queue) readmit(s *source) {
	q.bindMu.Lock()
	defer q.bindMu.Unlock()
	if list := *q.sources.Load(); !slices.Contains(list, s) {
		list = append(list[:len(list):len(list)], s)
		q.sources.Store(&list)
	}
}

// source is where one endpoint puts its completions: written by its shard, read
// by the queue's reader.
type source struct {
	q    *Queue
	core atomic.Pointer[Endpoint] // nil once the endpoint was closed
	of   *Endpoint                // the same, for good
	ring *ring.SPSC[Completion]

	// behind: the endpoint waits for room to tell of peers' writes.
	behind atomic.Bool
}

// Done implements ope.Sink, on the shard.
func (s *source) Done(q *ope.Request, r *ope.Result) {
	o := s.of
	if !o.onlyPlace(q) {
		o.finished(q, r)
	}
	if q.Flags&ope.Quiet != 0 {
		s.quiet(q, r)
		return
	}
	s.ring.Put().fill(o, q, r) // the cell was reserved when the operation was posted
}

// quiet takes an outcome that has no completion in the ring. The failure of an operation that was to
// be silent goes elsewhere.
func (s *source) quiet(q *ope.Request, r *ope.Result) {
	if r.Err != nil {
		s.q.overflow.add(s.of, q, r)
		s.q.wake()
	}
}

// publish lets the reader see what this turn completed.
func (s *source) publish() {
	if !s.ring.Publish() {
		return
	}
	if s.core.Load() == nil { // posted so late that the endpoint was closed before
		s.q.readmit(s)
	}
	s.q.wake()
}

// Room implements ope.Many: it takes the place for one more completion. If there is none, the
// endpoint gets a turn when the queue was read.
func (s *source) Room() bool {
	if s.q.reserveOf(int64(s.q.depth), 1) > 0 {
		return true
	}
	s.behind.Store(true)
	return s.q.reserveOf(int64(s.q.depth), 1) > 0 // who read meanwhile did not know
}

// resume has the endpoint look again whether there is room for completions.
func (s *source) resume() {
	if s.behind.CompareAndSwap(true, false) && s.of.live() == nil {
		// A turn, at whose end it tries again. If the ring is full one is due anyway, and the
		// shard itself, which may be here, must not wait for room in it.
		s.of.act.Load().Submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: func() {}}})
	}
}

// overflow holds what has no reserved slot: failures of operations that were to
// be silent, at most maxOverflow of them.
type overflow struct {
	n  atomic.Int64
	mu sync.Mutex
	cs []Completion
}

// maxOverflow is for applications that never read the queue of silent operations.
// Counters count those beyond it all the same.
const maxOverflow = 4096

func (o *overflow) add(of *Endpoint, q *ope.Request, r *ope.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.cs) == maxOverflow {
		return
	}
	var c Completion
	c.fill(of, q, r)
	o.cs = append(o.cs, c)
	o.n.Store(int64(len(o.cs)))
}

func (o *overflow) take(dst []Completion) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := copy(dst, o.cs)
	o.cs = append(o.cs[:0], o.cs[n:]...)
	o.n.Store(int64(len(o.cs)))
	return n
}
