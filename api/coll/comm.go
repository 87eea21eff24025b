package coll

import (
	"context"
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
