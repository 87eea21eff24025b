package native

import (
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// buffer is the memory of an operation.
type buffer struct {
	*party.Buffer
	region *efa.MemoryRegion // nil: a plain slice
}

func (n *Node) buffer(op party.Op, size int) (buffer, error) {
	pieces := max(op.Pieces, 1)
	room := party.Room(size, pieces)
	if !op.Registered {
		return buffer{Buffer: party.NewBuffer(make([]byte, room), size, pieces)}, nil
	}
	m, err := n.dom.Alloc(room, efa.AccessSend|efa.AccessRecv)
	if err != nil {
		return buffer{}, err
	}
	return buffer{party.NewBuffer(m.Bytes(), size, pieces), m}, nil
}

// parts are the buffer as requests take it: in one, or in pieces.
func (b buffer) parts() (whole []byte, pieces [][]byte) {
	if len(b.Pieces) == 1 {
		return b.Pieces[0], nil
	}
	return nil, b.Pieces
}

// release gives the memory back.
func (b buffer) release() error {
	if b.region == nil {
		return nil
	}
	return b.region.Close()
}
