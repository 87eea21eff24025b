package efanet

import (
	"errors"

	"github.com/efactor/efactor/api/efa"
)

// serve takes what others open, until the endpoint ends. A listener that is still there by then
// learns why.
func (h *hub) serve() {
	err := h.take()
	if l := h.to.Load(); l != nil {
		l.limit.end(err)
	}
}

// take waits for channels, not on the endpoint: goroutines that wait for bytes drive the device, and
// are not to hand it to this one.
func (h *hub) take() error {
	type slot struct {
		op  *efa.Op
		buf []byte
	}
	var slots [openAhead]slot
	for i := range slots {
		slots[i].buf = make([]byte, maxOpen)
	}
	post := func(s *slot) (err error) {
		s.op, err = h.start(&efa.RecvReq{Tagged: true, Tag: laneOpen.tag(0), Buf: s.buf})
		return err
	}
	for i := range slots {
		if err := post(&slots[i]); err != nil {
			return err
		}
	}
	for i := 0; ; i = (i + 1) % openAhead {
		s := &slots[i]
		<-s.op.Done()
		c, err := s.op.Wait(h.ctx)
		if errors.Is(err, efa.ErrClosed) || errors.Is(err, efa.ErrIO) {
			return err
		}
		if err == nil {
			h.opened(&c.Message, s.buf[:c.N])
		}
		if err := post(s); err != nil {
			return err
		}
	}
}

// opened answers an OPEN or a PING. One that is none has no answer: there is nobody to give it to.
func (h *hub) opened(m *efa.Message, body []byte) {
	f, err := parse(laneOpen, m)
	switch {
	case err != nil:
		return
	case f.kind == kindPing:
		h.pinged(m, body)
		return
	}
	var o open
	if o.unmarshal(body) != nil || !isFrom(m, o.from) {
		return
	}
	p, err := h.join(o.from)
	if err != nil {
		if errors.Is(err, errMany) {
			h.refuse(o, refusedMany)
		}
		return
	}
	l := h.to.Load()
	c := newConn(h, p)
	c.begin(o.id, o.accepted)
	switch {
	case l == nil:
		h.refuse(o, refusedNobody)
	case !l.enqueue(c):
		h.refuse(o, refusedBacklog)
	default:
		return
	}
	go c.leave() // which may end the hub, and then waits for this goroutine
}

// accept lets the other side know that its connection is there.
func (c *Conn) accept() error {
	return c.hub.ep.SendTag(c.hub.ctx, c.peer.at, laneBack.tag(c.to), accepted{window, c.peer.mine}.append(nil),
		efa.Inject, efa.Data(head(kindAccept, c.id)))
}

func (h *hub) refuse(o open, why refusal) {
	at, err := h.ep.AddressVector().Insert(o.from)
	if err != nil {
		return // it cannot be reached
	}
	_ = h.ep.SendTag(h.ctx, at, laneBack.tag(o.id), nil, efa.Inject, efa.Data(head(kindRefuse, uint64(why))))
}

// isFrom reports whether an address that a message states is its sender's.
func isFrom(m *efa.Message, a efa.Address) bool {
	for _, scheme := range []string{"shm", "tcp", "efa", "sim"} {
		if raw, ok := a.Raw(scheme); ok && raw == m.Raw() {
			return true
		}
	}
	return false
}
