package paged

import (
	"context"
	"errors"

	"github.com/efactor/efactor/api/efa"
)

// Sink is the decode process's side, for one goroutine.
type Sink struct {
	shape   Shape
	ep      *efa.Endpoint
	prefill efa.Addr
	mem     *efa.MemoryRegion
	begun   bool
}

// NewSink makes memory for the pages that the prefill process will write. The endpoint must
// have been made with Shape.Endpoint.
func NewSink(s Shape, dom *efa.Domain, ep *efa.Endpoint, prefill efa.Addr) (*Sink, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if ep.Arrivals() == nil {
		return nil, errors.New("paged: the endpoint counts no arrivals, see Shape.Endpoint")
	}
	mem, err := dom.Alloc(s.Bytes(), efa.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	return &Sink{shape: s, ep: ep, prefill: prefill, mem: mem}, nil
}

// Begin has the prefill process write all pages anew: the program is done with those of the
// round before, of which late writes do not count any more.
func (s *Sink) Begin(ctx context.Context) (round uint32, err error) {
	arr := s.ep.Arrivals()
	if round = arr.Generation(); s.begun {
		round = arr.Next()
	}
	s.begun = true
	b, err := appendBegin(nil, round, s.mem.Remote())
	if err != nil {
		return 0, err
	}
	return round, s.ep.Send(ctx, s.prefill, b)
}

// Layer returns the pages of a layer when all of them are there, or an error as soon as
// the prefill process has failed. They are valid until Begin or Close.
func (s *Sink) Layer(ctx context.Context, layer int) ([]byte, error) {
	if err := s.ep.Arrivals().Wait(ctx, uint32(layer), s.shape.Pages, s.prefill); err != nil {
		return nil, err
	}
	return s.mem.Bytes()[s.shape.at(layer, 0):s.shape.at(layer+1, 0)], nil
}

// Close gives the memory back.
func (s *Sink) Close() error { return s.mem.Close() }
