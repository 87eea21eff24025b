package nic

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// request is an outstanding send whose status is not known, or which waits to
// be sent again because the receiver had nothing posted.
type request struct {
	wr        device.SendWR
	own       []byte // the packet's bytes if the caller's are gone
	gen       uint32 // tells this use from earlier ones, in the token
	tries     uint32 // resends so far
	state     reqState
	last      bool // no resend: the address handle is gone, or the owner does it
	completed bool // a datagram that is over for the caller
	due       clock.Time
}

type reqState uint8

const (
	reqFree    reqState = iota
	reqPending          // the carrier has it
	reqWaiting          // to be sent again at due
)

// SetRNRRetry implements device.QP. More than Forever is Forever. After the
// first send it has no effect, since what is kept of a send depends on it.
func (q *QP) SetRNRRetry(n uint8) error {
	if q.stats.Sends == 0 {
		q.cfg.RNRRetry = min(n, Forever)
	}
	return nil
}

// token names this use of the request with index i to the carrier.
func (r *request) token(i uint32) uint64 { return uint64(r.gen)<<32 | uint64(i) }

// keepRequest takes request i, the newest free one, for wr. If the caller may change the
// bytes before a resend, they are copied when the first refusal is known; a carrier
// that answers later keeps no copy, so then they are copied now, unless the owner sends a long packet
// again (byOwner). The local side of RDMA stays the device's until the completion.
func (q *QP) keepRequest(i uint32, wr *device.SendWR, byOwner bool) {
	q.freeReqs = q.freeReqs[:len(q.freeReqs)-1]
	q.freed()
	r := &q.reqs[i]
	r.wr, r.tries, r.last, r.completed = *wr, 0, false, false
	if r.own != nil || !q.cfg.CopiesAtPost || wr.Kind != device.WRSend { // own: of several pieces
		return
	}
	if byOwner = byOwner && len(wr.Payload) >= longPacket; byOwner || q.cfg.RNRRetry == 0 {
		r.wr.Header, r.wr.Payload, r.last = nil, nil, byOwner
		return
	}
	r.own = q.buffer()
	h := copy(r.own, wr.Header)
	p := copy(r.own[h:], wr.Payload)
	r.wr.Header, r.wr.Payload, r.wr.LKey, r.wr.Stays = r.own[:h:h], r.own[h:h+p:h+p], 0, false
}

// longPacket is from how many bytes on a copy of a payload costs more than what an owner does who sends it again.
const longPacket = 2 << 10

// release frees request i; its token is invalid from now on.
func (q *QP) release(i uint32) {
	r := &q.reqs[i]
	q.dropOwn(r)
	r.gen++
	r.state = reqFree
	r.wr = device.SendWR{}
	q.freeReqs = append(q.freeReqs, i)
	q.freed()
}

// freed sets token after a change of freeReqs.
func (q *QP) freed() {
	if n := len(q.freeReqs); n > 0 {
		i := q.freeReqs[n-1]
		q.token = q.reqs[i].token(i)
	}
}

// onStatus takes the late status of a send. It rewrites e for the caller, or
// returns false if there is nothing to report (yet).
func (q *QP) onStatus(e *device.Completion) bool {
	i := uint32(e.ID)
	if i >= uint32(len(q.reqs)) || q.reqs[i].state != reqPending || q.reqs[i].token(i) != e.ID ||
		e.Status == Pending {
		q.stats.Refused++
		return false
	}
	r := &q.reqs[i]
	if q.cfg.Datagram {
		e.Status = q.departed(e.Status)
	}
	if r.completed {
		q.completed--
		q.completedTo[r.wr.AH]--
		q.release(i)
		return false
	}
	if e.Status == device.StatusRNR && q.mayResend(r) {
		q.resendLater(i)
		return false
	}
	*e = device.Completion{ID: r.wr.ID, Op: device.OpSend, Status: e.Status}
	q.release(i)
	q.outstanding--
	q.countError(e.Status)
	return true
}

func (q *QP) mayResend(r *request) bool {
	if r.last {
		return false
	}
	return q.cfg.RNRRetry == Forever || r.tries < uint32(q.cfg.RNRRetry)
}

// resendLater puts request i on the waiting list.
func (q *QP) resendLater(i uint32) {
	r := &q.reqs[i]
	q.stats.RNRs++
	r.due = q.cfg.Clock.Now().Add(q.cfg.RNRDelay << min(r.tries, maxRNRShift))
	r.state = reqWaiting
	if len(q.waiting) == 0 || r.due < q.due {
		q.due = r.due
	}
	q.waiting = append(q.waiting, i)
}

// resend sends again what is due. A request that is refused again goes to the end
// of the list with a later time, so one call tries each at most once.
func (q *QP) resend() {
	now := q.cfg.Clock.Now()
	if now < q.due {
		return
	}
	list := q.waiting
	q.waiting = q.waiting[:0] // filled at most as fast as list is read
	for _, i := range list {
		r := &q.reqs[i]
		if now < r.due {
			q.keepWaiting(i)
			continue
		}
		r.tries++
		q.stats.Resends++
		st := q.launch(&r.wr, r.token(i))
		if st == Unsent {
			st = device.StatusRNR // as if the receiver had not been ready
		} else if q.cfg.Resent != nil {
			q.cfg.Resent(&r.wr)
		}
		switch {
		case st == Pending:
			r.state = reqPending
		case st == device.StatusRNR && q.mayResend(r):
			q.resendLater(i)
		default:
			id := r.wr.ID
			q.release(i)
			q.finish(id, st)
		}
	}
}

// keepWaiting puts i, whose time has not come, back on the list.
func (q *QP) keepWaiting(i uint32) {
	if len(q.waiting) == 0 || q.reqs[i].due < q.due {
		q.due = q.reqs[i].due
	}
	q.waiting = append(q.waiting, i)
}

// dropResends ends the sends that wait for a resend through ah, and keeps those in
// flight from being sent again: the number may soon mean another GID.
func (q *QP) dropResends(ah device.AH) {
	for i := range q.reqs {
		if r := &q.reqs[i]; r.state == reqPending && r.wr.AH == ah {
			r.last = true
		}
	}
	list := q.waiting
	q.waiting = q.waiting[:0]
	for _, i := range list {
		if q.reqs[i].wr.AH != ah {
			q.keepWaiting(i)
			continue
		}
		id := q.reqs[i].wr.ID
		q.release(i)
		q.finish(id, device.StatusInvalidAH)
	}
}
