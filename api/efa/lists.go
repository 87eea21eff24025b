package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/wire"
)

// How many pieces of memory an operation may name. More are refused with ErrInvalid.
const (
	// IOVLimit is the most pieces of a request's own memory (Bufs). Packets take them from where
	// they lie where the device gathers, and copy them once into the packet elsewhere; what
	// arrives is copied, or read by the device, straight into its piece.
	IOVLimit = 1024
	// RMAIOVLimit is the most pieces of a peer's memory (Ats). A packet of the protocol names 4
	// of them, a request of a device one: the operation is cut.
	RMAIOVLimit = 1024
)

// pieced gives a request a list of pieces of its own memory.
func pieced(req *ope.Request, pieces [][]byte) error {
	switch {
	case req.Buf != nil:
		return errBothBufs
	case len(pieces) > IOVLimit:
		return fmt.Errorf("%w: %d pieces, at most %d", ErrInvalid, len(pieces), IOVLimit)
	}
	l := req.TakeLists()
	req.Flags |= ope.Pieced
	for _, p := range pieces {
		if !l.AddLocal(p) {
			req.PutLists()
			return fmt.Errorf("%w: pieces of more bytes than an int counts", ErrMsgSize)
		}
	}
	if len(l.Local) < 2 {
		if len(l.Local) == 1 {
			req.Buf = l.Local[0]
		}
		req.PutLists()
	}
	return nil
}

// gathered makes one buffer of a request's pieces, for an endpoint that does without the
// protocol: there a message is one packet, and a write one request of the device.
func gathered(req *ope.Request) {
	if req.Flags&ope.Pieced == 0 {
		return
	}
	b := make([]byte, req.Len())
	req.Gather(b)
	req.PutLists()
	req.Buf = b
}

// locateAll is locate for a request that may name several pieces of the peer's memory. After
// an error the request has no lists.
func (e *Endpoint) locateAll(req *ope.Request, at Remote, ats []Remote) error {
	err := e.locatePieces(req, at, ats)
	if err != nil {
		req.PutLists()
	}
	return err
}

func (e *Endpoint) locatePieces(req *ope.Request, at Remote, ats []Remote) error {
	n := req.Len()
	switch {
	case len(ats) == 0:
		return e.locate(req, at, n)
	case at.names != nil || at.n != 0:
		return fmt.Errorf("%w: a request has At or Ats, not both", ErrInvalid)
	case len(ats) > RMAIOVLimit:
		return fmt.Errorf("%w: %d pieces of remote memory, at most %d", ErrInvalid, len(ats), RMAIOVLimit)
	}
	left, only := uint64(n), -1
	for i := range ats {
		if ats[i].n > left {
			return fmt.Errorf("%w: pieces of remote memory of more than the %d bytes", ErrInvalid, n)
		}
		if left -= ats[i].n; ats[i].n > 0 || only < 0 && i == len(ats)-1 {
			only = i
		}
	}
	switch {
	case left > 0:
		return fmt.Errorf("%w: %d bytes, and pieces of remote memory of %d", ErrInvalid, n, uint64(n)-left)
	case ats[only].n == uint64(n):
		return e.locate(req, ats[only], n)
	case e.cfg.Direct:
		return fmt.Errorf("%w: several pieces of remote memory in one request of the device", ErrNotSupported)
	}
	l, gid := req.TakeLists(), e.cfg.AV.gid(req.Peer)
	for i := range ats {
		if ats[i].n == 0 {
			continue
		}
		addr, key, err := ats[i].on(gid, int(ats[i].n))
		if err != nil {
			l.Remote = append(l.Remote, wire.RMAIOV{}) // so that the lists are taken back
			return err
		}
		l.Remote = append(l.Remote, wire.RMAIOV{Addr: addr, Len: ats[i].n, Key: key})
	}
	return nil
}
