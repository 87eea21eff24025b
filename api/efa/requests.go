package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// sendRequest checks a send and makes the request for the shard.
func (e *Endpoint) sendRequest(req *ope.Request, r *SendReq, s *settings) error {
	if err := e.sending(req, r.To, r.Buf, r.Tagged, r.Tag); err != nil {
		return err
	}
	req.Token = s.tokenOf(r.Token)
	req.Flags |= s.flags(r.Level, r.Inject, r.Quiet)
	s.dataOf(req, r.HasData, r.Data)
	return e.outgoing(req, r.Bufs)
}

// sending begins the request of a message.
func (e *Endpoint) sending(req *ope.Request, to Addr, p []byte, tagged bool, tag uint64) error {
	if err := e.ready(asks(CapSend, tagged, false)); err != nil {
		return err
	}
	*req = ope.Request{Kind: ope.KindSend, Peer: uint64(to), Tag: tag, Buf: p}
	if tagged {
		req.Flags = ope.Tagged
	}
	return nil
}

// dataOf gives a request remote CQ data: its own, or the view's.
func (s *settings) dataOf(req *ope.Request, has bool, data uint64) {
	switch {
	case has:
		req.Flags |= ope.HasData
		req.Data = data
	case s.hasData:
		req.Flags |= ope.HasData
		req.Data = s.data
	}
}

// outgoing checks the buffer of what is to leave, gathered from pieces if there
// are some.
func (e *Endpoint) outgoing(req *ope.Request, pieces [][]byte) error {
	if len(pieces) > 0 {
		if req.Buf != nil {
			return errBothBufs
		}
		req.Buf = gather(pieces)
	}
	if req.Flags&ope.Inject != 0 {
		if len(req.Buf) > e.mostInject {
			return fmt.Errorf("%w: inject of %d bytes, at most %d", ErrMsgSize, len(req.Buf), e.mostInject)
		}
	}
	return nil
}

// incoming sets up pieces to be filled.
func incoming(req *ope.Request, pieces [][]byte) error {
	if len(pieces) == 0 {
		return nil
	}
	if req.Buf != nil {
		return errBothBufs
	}
	req.More = &ope.More{Pieces: pieces}
	req.Buf = make([]byte, total(pieces))
	return nil
}

// recvRequest checks a receive and makes the request for the shard.
func (e *Endpoint) recvRequest(req *ope.Request, r *RecvReq, s *settings) error {
	from := r.From
	if !r.Directed {
		from = s.from
	}
	if err := e.receiving(req, from, r.Buf, r.Tagged, Match{r.Tag, r.Ignore}); err != nil {
		return err
	}
	req.Token = s.tokenOf(r.Token)
	if r.Quiet || s.quiet {
		req.Flags |= ope.Quiet
	}
	return incoming(req, r.Bufs)
}

// receiving begins the request of a receive.
func (e *Endpoint) receiving(req *ope.Request, from Addr, p []byte, tagged bool, m Match) error {
	if err := e.ready(asks(CapRecv, tagged, from != AnyAddr)); err != nil {
		return err
	}
	*req = ope.Request{Kind: ope.KindRecv, Tag: m.Tag, Ignore: m.Ignore, Buf: p}
	return matching(req, from, tagged)
}

// matching says which messages a request takes.
func matching(req *ope.Request, from Addr, tagged bool) error {
	req.Peer = uint64(match.AnySource)
	if from != AnyAddr {
		if from >= notAvail {
			return fmt.Errorf("%w: receive from no peer (handle %d)", ErrInvalid, from)
		}
		req.Peer = uint64(from)
	}
	if tagged {
		req.Flags |= ope.Tagged
	}
	return nil
}

func total(bs [][]byte) int {
	n := 0
	for _, b := range bs {
		n += len(b)
	}
	return n
}

func gather(bs [][]byte) []byte {
	p := make([]byte, 0, total(bs))
	for _, b := range bs {
		p = append(p, b...)
	}
	return p
}
