package coll

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
)

// Config says which processes work together. All ranks pass the same Peers in
// effect, the same Options, and endpoints on the same kind of device.
type Config struct {
	// Endpoint carries the messages. Tagged messages with the highest bit of the
	// tag set are this package's; the rest of the endpoint is the caller's. One
	// New on an endpoint: a second one could meet messages of the first.
	Endpoint *efa.Endpoint
	// Rank is the number of this process, from 0.
	Rank int
	// Peers are the ranks' handles in the endpoint's address vector, by rank. Its
	// own is one of them.
	Peers []efa.Addr

	// Options hold for all collectives.
	Options []Option
	// Tracer makes a span of each collective; nil: none. With the TracerProvider
	// of efa.Telemetry the operations that it is made of are spans within it.
	Tracer trace.Tracer
	// Logger gets the failures of groups; nil: they are not logged.
	Logger *slog.Logger
	// Go starts a function that runs beside others; nil: the go statement.
	// Simulations pass their own, and then nothing here waits but by calling
	// package efa.
	Go func(func())
}

// Comm is a group of ranks that work together. Its collectives are functions, since
// methods have no type parameters: Bcast(ctx, c, ...). All ranks of a group call
// the same collectives in the same order. Different goroutines may use different
// groups at the same time; on one group, the non-blocking forms are for that.
//
// A Comm is a view: see With.
type Comm struct {
	*group
	set settings
}

// group is a Comm without its options.
type group struct {
	family *family
	id     uint64     // context id
	nonce  uint64     // distinguishes it from earlier groups with its id
	rank   int        // ours
	peers  []efa.Addr // by rank

	seq    atomic.Uint64        // collectives called
	ahead  []atomic.Int64       // by rank, see call.tooFar
	spare  atomic.Pointer[call] // the last of them that is over
	closed atomic.Bool

	// The group's failure, see group.fail: claimed by the first call that meets it,
	// and once all other ranks were informed, its fate.
	claim, fate atomic.Pointer[RankError]
	gone        chan struct{} // closed at fate: all in progress is to end
	revocations revocationListener
	reminding   sync.WaitGroup // see group.remind
	enough      context.Context
	unremind    context.CancelFunc

	mu      sync.Mutex
	endings map[*call]context.CancelCauseFunc
	pending map[*Request]struct{} // not over
}

// New makes the group of all ranks. It sends nothing.
func New(cfg Config) (_ *Comm, err error) {
	defer errtext.Wrap("coll", "new", &err)
	switch {
	case cfg.Endpoint == nil:
		return nil, fmt.Errorf("%w: coll needs an endpoint", efa.ErrInvalid)
	case len(cfg.Peers) == 0:
		return nil, fmt.Errorf("%w: no peers", efa.ErrInvalid)
	case cfg.Rank < 0 || cfg.Rank >= len(cfg.Peers):
		return nil, fmt.Errorf("%w: rank %d of %d", efa.ErrInvalid, cfg.Rank, len(cfg.Peers))
	}
	cfg.Peers = slices.Clone(cfg.Peers)
	f := newFamily(cfg)
	g, err := f.newGroup(rootContext, cfg.Rank, cfg.Peers, fnv.New64a().Sum64())
	if err != nil {
		return nil, err
	}
	c := &Comm{group: g}
	c.set.apply(cfg.Options)
	return c, nil
}

func (f *family) newGroup(id uint64, rank int, peers []efa.Addr, nonce uint64) (*group, error) {
	g := &group{
		family: f, id: id, nonce: nonce, rank: rank, peers: peers, ahead: make([]atomic.Int64, len(peers)),
		gone: make(chan struct{}), endings: map[*call]context.CancelCauseFunc{}, pending: map[*Request]struct{}{},
	}
	g.enough, g.unremind = context.WithCancel(context.Background())
	if err := g.listen(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.alive++
	f.mu.Unlock()
	return g, nil
}

// Rank is the number of this process in the group.
func (c *Comm) Rank() int { return c.rank }

// Size is how many ranks the group has.
func (c *Comm) Size() int { return len(c.peers) }

// With returns a view of the group with other defaults.
func (c *Comm) With(opts ...Option) *Comm {
	v := &Comm{c.group, c.set}
	v.set.apply(opts)
	return v
}

// Chosen is the name of the algorithm for a collective, as in spans: the one that [Use]
// requests in the options, or the one that fits. bytes is a rank's contribution; for
// Bcast and the reductions the whole buffer, for Gather, Scatter and Allgather a rank's
// part, for Allgatherv and Alltoall all parts. It is empty if there is no such
// collective.
func (c *Comm) Chosen(collective string, bytes int, opts ...Option) string {
	k := slices.Index(kindNames[:], collective)
	if k <= 0 {
		return ""
	}
	x := &call{peers: c.peers, kind: kind(k), set: c.set, bytes: bytes}
	x.set.apply(opts)
	return x.choose().name
}

// Abort makes all collectives of the group fail on all ranks, those in progress
// too, with a [RankError] that names this rank.
func (c *Comm) Abort(why error) {
	_ = c.fail(&RankError{c.rank, fmt.Errorf("%w: %w", ErrAborted, why)})
}

// Close ends the group. All ranks call it: it returns when they have, so that a
// rank may then end its program without an error at the others; the endpoint is
// best ended by its Shutdown. It waits for collectives in progress.
//
// In a group that has failed, Close waits until the other ranks know of that or are
// dead: from then on buffers that were lent to its collectives are not read any more.
// With a ctx that has ended it cannot wait, and promises nothing about them. Even with
// an error, the group is closed.
//
// With the last group that came from a New, memory of Alloc goes.
func (c *Comm) Close(ctx context.Context) (err error) {
	defer errtext.Wrap("coll", "close", &err)
	g := c.group
	if !g.closed.CompareAndSwap(false, true) {
		return nil
	}
	defer context.AfterFunc(ctx, g.unremind)() // without time nothing is found out about other ranks
	g.mu.Lock()
	open := make([]*Request, 0, len(g.pending))
	for r := range g.pending {
		open = append(open, r)
	}
	g.mu.Unlock()

	for _, r := range open {
		if errors.Is(r.Wait(ctx), efa.ErrCanceled) && ctx.Err() != nil {
			_ = g.fail(&RankError{g.rank, givenUp(ctx)})
			_ = r.Wait(context.WithoutCancel(ctx))
		}
	}
	well := g.claim.Load() == nil
	x := newCall[byte](c, kindClose, nil)
	err = x.run(ctx)
	g.unspare()
	g.revocations.stop()
	switch {
	case err == nil:
		g.family.ids.free(g.id)
	case !well:
		g.quiesce(ctx)
	}
	g.unremind()
	g.reminding.Wait()

	g.family.mu.Lock()
	g.family.alive--
	last := g.family.alive == 0
	g.family.mu.Unlock()
	if last {
		err = errors.Join(err, g.family.memory.close())
	}
	return err
}

// unspare has a group that is closed keep no call.
func (g *group) unspare() {
	if x := g.spare.Swap(nil); x != nil {
		x.unwatch()
	}
}

// member is each rank's contribution to Split.
type member struct{ Color, Key, Rank int64 }

// Split makes groups of the ranks that gave the same color, in each ordered by key
// and then by the rank in c. A rank with a negative color gets no group: nil. All
// ranks of c call it.
func (c *Comm) Split(ctx context.Context, color, key int) (_ *Comm, err error) {
	defer errtext.Wrap("coll", "split", &err)
	nonce := c.derive(c.seq.Load(), int64(color))
	all := make([]member, len(c.peers))
	if err := Allgather(ctx, c, []member{{int64(color), int64(key), int64(c.rank)}}, all); err != nil {
		return nil, err
	}
	id, err := c.agree(ctx, color >= 0)
	if color < 0 {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m member) bool { return m.Color != int64(color) })
	slices.SortFunc(all, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Rank, b.Rank))
	})
	rank, peers := 0, make([]efa.Addr, len(all))
	for i, m := range all {
		if m.Rank < 0 || m.Rank >= int64(len(c.peers)) {
			return nil, c.fail(&RankError{c.rank, fmt.Errorf("%w: a member of rank %d", ErrMismatch, m.Rank)})
		}
		if peers[i] = c.peers[m.Rank]; m.Rank == int64(c.rank) {
			rank = i
		}
	}
	var g *group
	if err == nil {
		g, err = c.family.newGroup(id, rank, peers, nonce)
	}
	if err == nil {
		return &Comm{g, c.set}, nil
	}
	if id != rootContext { // others may have made it, and would wait for us
		(&group{family: c.family, id: id, nonce: nonce, rank: rank, peers: peers, enough: c.enough}).notify(&RankError{rank, err})
	}
	if e := (*RankError)(nil); errors.As(err, &e) || errors.Is(err, ErrNoContext) {
		return nil, err
	}
	return nil, c.fail(&RankError{c.rank, err})
}

// derive is the nonce of a group that is made of this one.
func (g *group) derive(seq uint64, color int64) uint64 {
	h := fnv.New64a()
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], g.nonce)
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint64(b[16:], uint64(color))
	_, _ = h.Write(b[:])
	return h.Sum64()
}

// agree finds a context id that is free on all ranks and takes it, on those that
// want one. All groups of a Split have the same, since no rank is in two of them. In
// between another Split, on another group, may take the id on one of the ranks:
// therefore a vote, and if it fails another attempt with another id. If the vote itself
// fails, the id comes with the error: others may have it.
func (c *Comm) agree(ctx context.Context, want bool) (uint64, error) {
	const attempts = 64
	for i := range uint64(attempts) {
		start := uint64(1)
		if i > 0 {
			start = c.derive(c.seq.Load(), int64(i))
		}
		var bits, common [maxContexts / 64]uint64
		if c.family.ids.all(bits[:]); !want {
			for i := range bits {
				bits[i] = ^uint64(0)
			}
		}
		if err := Allreduce(ctx, c, bits[:], common[:], And); err != nil {
			return 0, err
		}
		id, ok := pick(common[:], start%maxContexts)
		if !ok {
			break
		}
		mine := want && c.family.ids.take(id)
		vote := []uint8{1}
		if want && !mine {
			vote[0] = 0
		}
		err := Allreduce(ctx, c, vote, vote, Min)
		if err == nil && vote[0] == 1 {
			return id, nil
		}
		if err != nil {
			return id, err
		}
		if mine {
			c.family.ids.free(id)
		}
	}
	return 0, ErrNoContext
}

// Group makes a group of the ranks of c in the set, which have their places in it as ranks
// there; a rank that is not in the set gets none: nil. All ranks of c call it with the same
// set, or with sets that have no rank in common, each of which becomes a group. A rank that
// c has not is an error, before anything is sent.
func (c *Comm) Group(ctx context.Context, s *Ranks) (_ *Comm, err error) {
	defer errtext.Wrap("coll", "group", &err)
	for _, r := range s.list {
		if r < 0 || r >= c.Size() {
			return nil, fmt.Errorf("%w: a set has rank %d, the group %d ranks", efa.ErrInvalid, r, c.Size())
		}
	}
	i := s.Index(c.Rank())
	if i < 0 {
		return c.Split(ctx, -1, 0)
	}
	return c.Split(ctx, slices.Min(s.list), i) // sets without a common rank have different least ones
}

// Option changes how a collective is done: given to a call it holds for that call,
// given to Comm.With for a view of the group, in Config for all. It must be the
// same on all ranks.
type Option struct {
	kind  optionKind
	name  string
	bytes int
}

type optionKind uint8

const (
	optUse optionKind = iota + 1
	optNonCommutative
	optSegment
)

// NonCommutative has the operator applied in the order of the ranks, see [Op]. Scan and Exscan
// need no telling.
var NonCommutative = Option{kind: optNonCommutative}

// Use names the algorithm to take instead of the one that fits: for tests and
// measurements. Collectives that have no algorithm of this name, or cannot use
// it (not every one is for every number of ranks, or for operators that do not
// commute), take no notice. [Algorithms] lists the names.
func Use(algorithm string) Option { return Option{kind: optUse, name: algorithm} }

// Segment is how many bytes go in one piece where long messages are cut into
// pieces, so that the next one moves while this one is worked upon; at least 64
// KiB, 0: a size that stays in cache.
func Segment(bytes int) Option { return Option{kind: optSegment, bytes: bytes} }

// settings are options put together.
type settings struct {
	use     string
	ordered bool
	segment int
}

func (s *settings) apply(opts []Option) {
	for i := range opts {
		switch o := &opts[i]; o.kind {
		case optUse:
			s.use = o.name
		case optNonCommutative:
			s.ordered = true
		case optSegment:
			s.segment = o.bytes
		}
	}
}
