package paged

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// window is how many writes are in progress at a time.
const window = 32

// Source is the prefill process's side, for one goroutine.
type Source struct {
	shape  Shape
	ep     *efa.Endpoint
	decode efa.Addr
	round  uint32
	there  efa.Remote
	writes []*efa.Op // in progress, the oldest first
}

// NewSource makes the side that writes into the memory of the decode process.
func NewSource(s Shape, ep *efa.Endpoint, decode efa.Addr) (*Source, error) {
	return &Source{shape: s, ep: ep, decode: decode}, s.Check()
}

// Next waits for the beginning of a round.
func (s *Source) Next(ctx context.Context) (round uint32, err error) {
	var b [maxBegin]byte
	m, err := s.ep.Recv(ctx, b[:], efa.From(s.decode))
	if err != nil {
		return 0, err
	}
	if s.round, s.there, err = parseBegin(b[:m.N]); err != nil {
		return 0, err
	}
	if s.there.Len() != uint64(s.shape.Bytes()) {
		return 0, fmt.Errorf("paged: %d bytes of memory for %d: the two sides have different shapes", s.there.Len(), s.shape.Bytes())
	}
	return s.round, nil
}

// Write begins to write a page of this round, which must stay as it is until Finish.
func (s *Source) Write(ctx context.Context, layer, page int, p []byte) error {
	data, err := efa.DataLayout{}.Data(uint32(layer), s.round)
	if err != nil {
		return err
	}
	if len(s.writes) == window {
		if err := s.oldest(ctx); err != nil {
			return err
		}
	}
	op, err := s.ep.Start(&efa.WriteReq{
		To: s.decode, At: s.there.Slice(uint64(s.shape.at(layer, page)), uint64(len(p))), Buf: p,
		HasData: true, Data: data, Level: efa.Delivered,
	})
	if err != nil {
		return err
	}
	s.writes = append(s.writes, op)
	return nil
}

// Finish returns when all pages are in the memory of the decode process.
func (s *Source) Finish(ctx context.Context) error {
	for len(s.writes) > 0 {
		if err := s.oldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) oldest(ctx context.Context) error {
	_, err := s.writes[0].Wait(ctx)
	s.writes = append(s.writes[:0], s.writes[1:]...)
	return err
}

// There is the memory that the pages of the round go to.
func (s *Source) There() efa.Remote { return s.there }
