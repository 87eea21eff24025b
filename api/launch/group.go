package launch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
)

// Group is this process as one of a job's: its rank, and an endpoint that can reach all
// others. The fields are not to be changed.
type Group struct {
	Rank, Size           int
	LocalRank, LocalSize int
	// Launcher describes the launcher for people: "hydra: PMI-1 on descriptor 5".
	Launcher string

	Fabric        *efa.Fabric
	Domain        *efa.Domain
	AddressVector *efa.AddressVector
	Endpoint      *efa.Endpoint // enabled
	// Peers are the handles of all ranks, by rank, this one's included.
	Peers []efa.Addr
	// Addresses are theirs, by rank.
	Addresses []efa.Address

	job *Job
}

// Init forms the group that this process was started as part of. All ranks must call it.
// When it returns every rank has every other's address.
func Init(ctx context.Context) (*Group, error) { return Config{}.Init(ctx) }

// Init is the function Init with wishes.
func (cfg Config) Init(ctx context.Context) (_ *Group, err error) {
	defer errtext.Wrap("launch", "init", &err)
	e, err := cfg.resolve()
	if err != nil {
		e.breakOff(ctx)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	j, err := e.meet(ctx)
	if err != nil {
		return nil, err
	}
	g := &Group{
		Rank: j.Rank, Size: j.Size, LocalRank: j.LocalRank, LocalSize: j.LocalSize, Launcher: j.Launcher, job: j,
	}
	left := true
	defer func() {
		if left { // Prepare panics, or ends its goroutine: the others need not wait
			j.Abort(errLeft)
			_ = g.Close()
		}
	}()
	err = g.form(ctx, e)
	left = false
	if err == nil && !j.stays {
		err = j.Close()
	}
	if err != nil {
		_ = g.Close() // the first error is the cause
		return nil, err
	}
	return g, nil
}

var errLeft = errors.New("its Prepare has not returned")

// form opens the endpoint and makes it known. An error at one rank is reported at
// all others.
func (g *Group) form(ctx context.Context, e *environment) error {
	var address string
	err := g.open(ctx, e)
	if err == nil {
		address = g.Endpoint.Address().String()
	}
	texts, err := g.job.share(ctx, address, err)
	if err != nil {
		return err
	}
	_, err = g.job.share(ctx, "", g.insert(texts))
	return err
}

// open opens everything up to the enabled endpoint.
func (g *Group) open(ctx context.Context, e *environment) (err error) {
	e.device(g.job)
	if g.Fabric, err = efa.Open(e.cfg.Fabric); err != nil {
		return err
	}
	domain := e.cfg.Domain
	if g.Domain, err = g.Fabric.OpenDomain(domain); err != nil {
		return err
	}
	cfg := e.cfg.Endpoint
	if cfg.AV == nil {
		cfg.AV = g.Domain.NewAddressVector()
	}
	g.AddressVector = cfg.AV
	if e.cfg.Prepare != nil {
		if err := e.cfg.Prepare(g.Domain, &cfg); err != nil {
			return err
		}
	}
	if g.Endpoint, err = g.Domain.NewEndpoint(cfg); err != nil {
		return err
	}
	return g.Endpoint.Enable(ctx)
}

// insert enters the addresses of all ranks.
func (g *Group) insert(texts []string) error {
	g.Addresses = make([]efa.Address, len(texts))
	for r, text := range texts {
		a, err := efa.ParseAddress(text)
		if err != nil {
			return &RankError{r, "rank " + itoa(r) + "'s address: " + errtext.Cause(err), err}
		}
		g.Addresses[r] = a
	}
	peers, err := g.AddressVector.InsertAll(g.Addresses...)
	var at *efa.InsertError
	if errors.As(err, &at) {
		return &RankError{at.Index, "rank " + itoa(at.Index) + " cannot be reached: " + errtext.Cause(at.Err) + g.job.env.hint(g.job), err}
	}
	g.Peers = peers
	for r, p := range peers {
		if err == nil {
			err = g.AddressVector.SetName(p, g.job.names[r])
		}
	}
	return err
}

// linger is how long Close waits for operations in progress. Tests change it.
var linger = time.Second

// unlessLate are the errors of a Shutdown but that of its context: what linger leaves to the
// operations in progress is a choice of Close's, whose caller it does not concern.
func unlessLate(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	return slices.DeleteFunc(slices.Clone(joined.Unwrap()), func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
}

// Close closes the endpoint and the objects it was opened on, and signs off at the
// launcher. Operations in progress, injected messages among them, get a second to complete
// ([efa.Endpoint.Shutdown] can wait for longer); the rest, and all receives, end with
// efa.ErrClosed, and ranks that still communicate with this one see it end. Queues,
// counters and memory that the caller has made of the domain must be closed before. It may
// be called again.
func (g *Group) Close() (err error) {
	defer errtext.Wrap("launch", "close", &err)
	var errs []error
	if g.Endpoint != nil {
		ctx, cancel := context.WithTimeout(context.Background(), linger)
		defer cancel()
		errs = append(errs, unlessLate(g.Endpoint.Shutdown(ctx))...)
	}
	if g.AddressVector != nil {
		errs = append(errs, g.AddressVector.Close())
	}
	if g.Domain != nil {
		errs = append(errs, g.Domain.Close())
	}
	if g.Fabric != nil {
		errs = append(errs, g.Fabric.Close())
	}
	return errors.Join(append(errs, g.job.Close())...)
}
