package script

import (
	"bytes"
	"slices"

	"github.com/efactor/efactor/actors/device"
)

// Sent is a packet that the endpoint posted.
type Sent struct {
	N     int // from 1, in the order of posting
	GID   device.GID
	QPN   uint16
	QKey  uint32
	Bytes []byte // as they were at the post

	Done   bool
	Status device.Status // if Done

	id      uint64
	payload []byte // the caller's memory
}

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
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
	switch {
	case int(wr.AH) >= len(q.gids):
		return device.ErrBadAH
	case len(wr.Header)+len(wr.Payload) > q.dev.info.MTU:
		q.fault("packet of %d bytes, MTU %d", len(wr.Header)+len(wr.Payload), q.dev.info.MTU)
		return device.ErrTooLong
	}
	q.flying++
	q.ringing = append(q.ringing, &Sent{
		N: len(q.sent) + len(q.ringing) + 1, GID: q.gids[wr.AH], QPN: wr.QPN, QKey: wr.QKey,
		Bytes: slices.Concat(wr.Header, wr.Payload), id: wr.ID, payload: wr.Payload,
	})
	return nil
}

// Refuse makes the next posts fail with these errors; nil accepts one.
func (q *QP) Refuse(errs ...error) { q.refuse = append(q.refuse, errs...) }

// Sent is everything that went out, in order.
func (q *QP) Sent() []*Sent { return q.sent }

// Flying are the packets without a completion.
func (q *QP) Flying() []*Sent {
	return slices.DeleteFunc(slices.Clone(q.sent), func(s *Sent) bool { return s.Done })
}

// Complete ends a packet with a status. A device that doesn't copy at the post
// reads the payload now, so it must still be what it was.
func (q *QP) Complete(s *Sent, status device.Status) {
	if s.Done {
		q.fault("test: packet %d completed twice", s.N)
		return
	}
	if !q.dev.info.CopiesAtPost && !bytes.Equal(s.payload, s.Bytes[len(s.Bytes)-len(s.payload):]) {
		q.fault("payload of packet %d changed while the device had it", s.N)
	}
	s.Done, s.Status, s.payload = true, status, nil
	q.flying--
	q.comps = append(q.comps, device.Completion{ID: s.id, Op: device.OpSend, Status: status})
}

// Arrive puts a packet from (gid, qpn) into the oldest posted receive slot; false
// if there is none, which the sender would see as RNR. With anonymous the device
// can't tell the GID of a sender to whom there is no address handle.
func (q *QP) Arrive(gid device.GID, qpn uint16, anonymous bool, packet []byte) bool {
	if len(q.order) == 0 || q.closed {
		return false
	}
	slot := q.order[0]
	q.order = q.order[1:]
	q.posted[slot] = false
	c := device.Completion{
		ID: uint64(slot), Op: device.OpRecv, SrcQPN: qpn, AH: device.UnknownAH,
		Len: copy(q.slots[slot], packet),
	}
	if ah, ok := q.ahs[gid]; ok {
		c.AH = ah
	} else if !anonymous {
		c.SrcGID = gid
	}
	q.comps = append(q.comps, c)
	return true
}

// Gone reports the death of the process behind a queue pair.
func (q *QP) Gone(gid device.GID, qpn uint16, qkey uint32) {
	c := device.Completion{Op: device.OpGone, SrcQPN: qpn, QKey: qkey, AH: device.UnknownAH, SrcGID: gid}
	if ah, ok := q.ahs[gid]; ok {
		c.AH, c.SrcGID = ah, device.GID{}
	}
	q.comps = append(q.comps, c)
}
