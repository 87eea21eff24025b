package script

import (
	"bytes"
	"slices"

	"github.com/efactor/efactor/actors/device"
)

// Sent is a packet or RDMA request that the endpoint posted.
type Sent struct {
	N    int // from 1, in the order of posting
	GID  device.GID
	QPN  uint16
	QKey uint32
	Kind device.WR

	// Bytes are the packet as it was at the post, or what an RDMA write carries;
	// nil of an RDMA read.
	Bytes    []byte
	NoHeader bool // data alone, for a user receive queue pair
	HasImm   bool
	Imm      uint32

	Remote uint64 // RDMA: address, key and bytes on the other side
	RKey   uint64
	Len    int

	Done   bool
	Status device.Status // if Done

	id      uint64
	stays   bool   // until the doorbell, so the payload
	payload []byte // the caller's memory; of an RDMA read where the data goes
}

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	q.enter("PostSend")
	switch {
	case q.closed:
		return device.ErrClosed
	case len(q.refuse) > 0:
		err := q.refuse[0]
		q.refuse = q.refuse[1:]
		if err != nil {
			return err
		}
	case q.flying >= q.sq:
		q.fault("post to a full send queue of %d", q.sq)
		return device.ErrQueueFull
	}
	if int(wr.AH) >= len(q.gids) {
		return device.ErrBadAH
	}
	if err := q.check(wr); err != nil {
		return err
	}
	q.flying++
	s := &Sent{
		N: len(q.sent) + len(q.ringing) + 1, GID: q.gids[wr.AH], QPN: wr.QPN, QKey: wr.QKey, Kind: wr.Kind,
		NoHeader: wr.Kind == device.WRSend && len(wr.Header) == 0, HasImm: wr.HasImm, Imm: wr.Imm, Remote: wr.Remote, RKey: wr.RKey, Len: len(wr.Payload),
		id: wr.ID, stays: wr.Stays && wr.Kind == device.WRSend, payload: wr.Payload,
	}
	if wr.Kind != device.WRRead {
		s.Bytes = slices.Concat(wr.Header, wr.Payload)
	}
	q.ringing = append(q.ringing, s)
	return nil
}

// Refuse makes the next posts fail with these errors; nil accepts one.
func (q *QP) Refuse(errs ...error) { q.refuse = append(q.refuse, errs...) }

// Sent is everything that went out, in order.
func (q *QP) Sent() []*Sent { return q.sent }

// Flying are the packets and requests without a completion.
func (q *QP) Flying() []*Sent {
	return slices.DeleteFunc(slices.Clone(q.sent), func(s *Sent) bool { return s.Done })
}

// Complete ends a packet or request with a status. A device that doesn't copy at
// the post reads the payload now, so it must still be what it was. RDMA that ends
// well moves data to or from the other side's [Memory].
func (q *QP) Complete(s *Sent, status device.Status) {
	if status == device.StatusOK && s.Kind != device.WRSend {
		status = q.move(s)
	}
	q.end(s, status)
}

func (q *QP) end(s *Sent, status device.Status) {
	if s.Done {
		q.fault("test: packet %d completed twice", s.N)
		return
	}
	kept := q.dev.info.CopiesAtPost && s.Kind == device.WRSend || s.Kind == device.WRRead
	if !kept && !bytes.Equal(s.payload, s.Bytes[len(s.Bytes)-len(s.payload):]) {
		q.fault("payload of packet %d changed while the device had it", s.N)
	}
	s.Done, s.Status, s.payload = true, status, nil
	q.flying--
	q.comps = append(q.comps, device.Completion{ID: s.id, Op: device.OpSend, Status: status})
}

// Arrive puts a packet from (gid, qpn) into the oldest posted receive slot; false
// if there is none, which the sender would see as RNR. With anonymous the device
// does not know the GID of a sender without address handle.
func (q *QP) Arrive(gid device.GID, qpn uint16, anonymous bool, packet []byte) bool {
	slot, ok := q.takeSlot()
	if !ok {
		return false
	}
	if len(packet) > q.dev.info.MTU {
		q.fault("test: a packet of %d bytes arrives, MTU %d", len(packet), q.dev.info.MTU)
	}
	c := q.from(gid, qpn, anonymous)
	c.ID, c.Op, c.Len = uint64(slot), device.OpRecv, len(packet)
	if dst := q.placeOf(&c, packet); dst == nil {
		copy(q.slots[slot], packet)
	} else {
		head := len(packet) - len(dst)
		c.Op, c.Imm = device.OpPlaced, uint32(head)
		copy(q.slots[slot], packet[:head])
		copy(dst, packet[head:])
		q.Placed++
	}
	q.comps = append(q.comps, c)
	return true
}

// Begin lets n bytes of a packet arrive, of which a connection brings no more: the payload's go to their place if it
// has one, and nobody hears of them. It reports whether it has a place.
func (q *QP) Begin(gid device.GID, qpn uint16, packet []byte, n int) bool {
	c := q.from(gid, qpn, false)
	dst := q.placeOf(&c, packet)
	if head := len(packet) - len(dst); dst != nil && n > head {
		copy(dst, packet[head:n])
	}
	return dst != nil
}

// placeOf is where the payload of a packet goes, nil for a slot.
func (q *QP) placeOf(c *device.Completion, packet []byte) []byte {
	if q.place == nil || c.AH == device.UnknownAH || len(packet) == 0 {
		return nil
	}
	dst, _ := q.place(c.AH, c.SrcQPN, packet[:min(len(packet), device.MaxHeader)], len(packet))
	return dst
}

func (q *QP) takeSlot() (int32, bool) {
	if len(q.order) == 0 || q.closed {
		return 0, false
	}
	slot := q.order[0]
	q.order = q.order[1:]
	q.posted[slot] = false
	return slot, true
}

// from begins a completion about another side.
func (q *QP) from(gid device.GID, qpn uint16, anonymous bool) device.Completion {
	c := device.Completion{SrcQPN: qpn, AH: device.UnknownAH}
	if ah, ok := q.ahs[gid]; ok {
		c.AH = ah
	} else if !anonymous {
		c.SrcGID = gid
	}
	return c
}

// Gone reports the death of the process behind a queue pair.
func (q *QP) Gone(gid device.GID, qpn uint16, qkey uint32) { q.gone(gid, qpn, qkey, false) }

// Left reports that a remote queue pair was closed in order.
func (q *QP) Left(gid device.GID, qpn uint16, qkey uint32) { q.gone(gid, qpn, qkey, true) }

func (q *QP) gone(gid device.GID, qpn uint16, qkey uint32, left bool) {
	c := q.from(gid, qpn, false)
	c.Op, c.QKey, c.Left = device.OpGone, qkey, left
	q.comps = append(q.comps, c)
}
