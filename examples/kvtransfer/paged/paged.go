package paged

import (
	"encoding/binary"
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// Shape is that of a cache.
type Shape struct {
	Layers   int
	Pages    int // of each layer
	PageSize int // bytes
}

// Bytes is the size of all layers.
func (s Shape) Bytes() int { return s.Layers * s.Pages * s.PageSize }

// Endpoint is the configuration that the decode process's endpoint needs.
func (s Shape) Endpoint() efa.EndpointConfig {
	return efa.EndpointConfig{Arrivals: &efa.ArrivalsConfig{
		Expected: []efa.Values{{First: 0, Last: uint32(s.Layers - 1)}},
	}}
}

// Check reports a shape that there cannot be.
func (s Shape) Check() error {
	if s.Layers < 1 || s.Layers > 1<<16 || s.Pages < 1 || s.Pages > 1<<20 || s.PageSize < 1 || s.PageSize > 1<<30 ||
		s.Layers*s.Pages > (1<<40)/s.PageSize {
		return fmt.Errorf("paged: a cache of %d layers of %d pages of %d bytes", s.Layers, s.Pages, s.PageSize)
	}
	return nil
}

func (s Shape) at(layer, page int) int { return (layer*s.Pages + page) * s.PageSize }

// The message that begins a round: its number, and where the memory is.
const maxBegin = 4 + efa.MaxRemote

func appendBegin(b []byte, round uint32, at efa.Remote) ([]byte, error) {
	return at.AppendBinary(binary.LittleEndian.AppendUint32(b, round))
}

func parseBegin(b []byte) (round uint32, at efa.Remote, err error) {
	if len(b) < 4 {
		return 0, at, fmt.Errorf("paged: a message of %d bytes begins no round", len(b))
	}
	err = at.UnmarshalBinary(b[4:])
	return binary.LittleEndian.Uint32(b), at, err
}
