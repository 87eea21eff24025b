package coll

import (
	"context"

	"github.com/efactor/efactor/internal/errtext"
)

// Request is a collective in progress. The buffers are lent until it is over. Its
// place in the order of the group's collectives is that of the call that began it,
// so several may be in progress, and blocking ones meanwhile. Mistakes in arguments
// come back from that call; ctx is that of the whole collective.
type Request struct {
	over signal
	err  error
}

// start does the collective beside the caller.
func (x *call) start(ctx context.Context) (*Request, error) {
	if err := x.begin(ctx); err != nil {
		return nil, x.refused(err)
	}
	g := x.group
	r := new(Request)
	if err := g.newSignal(&r.over); err != nil {
		// The others have to do without us.
		err = g.fail(&RankError{g.rank, err})
		return nil, x.refused(err)
	}
	g.mu.Lock()
	g.pending[r] = struct{}{}
	g.mu.Unlock()
	g.spawn(func() {
		if r.err = x.work(); r.err != nil {
			r.err = x.refused(r.err)
		} else {
			x.free()
		}
		g.mu.Lock()
		delete(g.pending, r)
		g.mu.Unlock()
		r.over.set()
	})
	return r, nil
}

// Wait waits for the end of the collective and returns its error. The end of ctx
// ends the wait, not the collective; the error then is efa.ErrCanceled.
func (r *Request) Wait(ctx context.Context) error {
	if err := r.over.wait(ctx); err != nil {
		return &errtext.Error{Package: "coll", Op: "wait", Err: err}
	}
	return r.err
}

// Done is closed when the collective is over; Err then has its error.
func (r *Request) Done() <-chan struct{} { return r.over.done }

// Err is the error of a collective that is over.
func (r *Request) Err() error { return r.err }

// WaitAll waits for requests and returns the first error, in their order.
func WaitAll(ctx context.Context, rs ...*Request) error {
	var first error
	for _, r := range rs {
		if err := r.Wait(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}
