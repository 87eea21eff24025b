package coll

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/errtext"
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

// Rank is the number of this process in the group.
func (c *Comm) Rank() int { return c.rank }

// Size is how many ranks the group has.
func (c *Comm) Size() int { return len(c.peers) }

// Peer is the handle of a rank.
func (c *Comm) Peer(rank int) efa.Addr { return c.peers[rank] }

// With returns a view of the group with other defaults.
func (c *Comm) With(opts ...Option) *Comm {
	v := &Comm{c.group, c.set}
	v.set.apply(opts)
	return v
}

// Err is the error of the group's collectives, a *RankError; nil: it has not
// failed.
func (c *Comm) Err() error {
	if c.claim.Load() == nil {
		return nil
	}
	return c.failed()
}

// Abort makes all collectives of the group fail on all ranks, those in progress
// too, with a [RankError] that names this rank.
func (c *Comm) Abort(why error) {
	_ = c.fail(&RankError{c.rank, fmt.Errorf("%w: %w", ErrAborted, why)})
}

// Dup makes a group of the same ranks whose collectives do not meet those of c.
func (c *Comm) Dup(ctx context.Context) (*Comm, error) { return c.Split(ctx, 0, c.rank) }

// ID is the group's context id: no two open groups with a rank in common have the
// same.
func (c *Comm) ID() int { return int(c.id) }

// Endpoint is the endpoint that carries the group's messages.
func (c *Comm) Endpoint() *efa.Endpoint { return c.ep }

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
	x := &call{group: c.group, kind: kind(k), set: c.set, bytes: bytes}
	x.set.apply(opts)
	return x.choose().name
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
	x := newCall(c, kindClose, nil)
	typed[byte](x)
	err = x.run(ctx)
	g.revocations.stop()
	switch {
	case err == nil:
		g.ids.free(g.id)
	case !well:
		g.quiesce(ctx)
	}

	g.family.mu.Lock()
	g.alive--
	last := g.alive == 0
	g.family.mu.Unlock()
	if last {
		err = errors.Join(err, g.memory.close())
	}
	return err
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

// NonCommutative has the operator applied in the order of the ranks, see [Op].
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
