package nic

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// QP is a queue pair of a software device over a Carrier; it implements
// device.QP. One shard calls its methods.
type QP struct {
	lending
	pulse
	holder
	carrier Carrier
	cfg     Config
	closed  bool
	dead    bool // closed, or OpFatal has come

	ahs ahTable

	// Invariant: outstanding = len(done) + Pending requests - told + waiting resends,
	// and outstanding and told <= cfg.Depth.
	outstanding int
	done        ring       // completed sends that were not polled
	reqs        []request  // sends whose status is not known yet
	freeReqs    []uint32   // indexes into reqs
	waiting     []uint32   // requests that wait to be sent again, oldest first
	due         clock.Time // of the earliest in waiting
	spare       [][]byte   // MTU-sized buffers of requests that ended
	told        int        // datagrams that are over for the caller, and not for the carrier
	toldTo      []int      // of them, by address handle

	slots      []slotState
	into       recvInto
	batch      []int32 // scratch of PostRecv
	arrivalsAt bool    // which side the next Poll looks at first

	stats Stats
}

// slotState says who owns a receive slot.
type slotState uint8

const (
	slotOwned  slotState = iota // with the caller
	slotPosted                  // with the carrier
)

var _ device.QP = (*QP)(nil)

// New returns a queue pair that is ready to use.
func New(cfg Config) (*QP, error) {
	if cfg.RNRDelay == 0 {
		cfg.RNRDelay = DefaultRNRDelay
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	requests := cfg.Depth
	if cfg.Datagram {
		cfg.asDatagram()
		requests *= 2
	}
	q := &QP{
		lending:  lending{lender: cfg.Windows, plain: cfg.Plain},
		pulse:    pulse{cfg.Pulser},
		carrier:  cfg.Carrier,
		cfg:      cfg,
		ahs:      newAHTable(),
		done:     newRing(cfg.Depth),
		reqs:     make([]request, requests),
		freeReqs: make([]uint32, 0, requests),
		waiting:  make([]uint32, 0, cfg.Depth),
		slots:    make([]slotState, cfg.Slots),
		batch:    make([]int32, 0, cfg.Slots),
	}
	if cfg.UserRecv {
		q.into = newRecvInto(cfg.Slots)
	}
	q.holder, q.lending.ahs = holder{cfg.Holder, &q.ahs}, &q.ahs
	for i := requests - 1; i >= 0; i-- {
		q.freeReqs = append(q.freeReqs, uint32(i))
	}
	return q, nil
}

// QPN implements device.QP.
func (q *QP) QPN() uint16 { return q.cfg.QPN }

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	if q.dead {
		return device.ErrClosed
	}
	if err := q.cfg.check(wr); err != nil {
		return err
	}
	switch {
	case !q.ahs.valid(wr.AH):
		return device.ErrBadAH
	case q.outstanding >= q.cfg.Depth:
		q.stats.QueueFull++
		return device.ErrQueueFull
	}
	// outstanding < Depth, so there is a free request.
	i := q.freeReqs[len(q.freeReqs)-1]
	q.outstanding++
	q.stats.Sends++
	if q.cfg.Datagram {
		postDatagram(q, i, wr)
		return nil
	}
	whole := wr
	if len(wr.More) > 0 {
		whole = q.gather(i, wr)
	}
	st := q.launch(whole, q.reqs[i].token(i))
	switch {
	case st == Pending:
		q.hold(i, whole)
		q.reqs[i].state = reqPending
		return nil
	case st == device.StatusRNR && q.cfg.RNRRetry > 0:
		q.hold(i, whole)
		q.resendLater(i)
		return nil
	case st == device.StatusOK && wr.Prompt:
		wr.Over = true
		q.outstanding--
	case st == device.StatusOK:
		q.done.push(sendDone{id: wr.ID, status: st})
	default:
		q.finish(wr.ID, st)
	}
	if len(wr.More) > 0 {
		q.dropOwn(&q.reqs[i])
	}
	return nil
}

// finish completes a send without a request.
func (q *QP) finish(id uint64, st device.Status) {
	q.done.push(sendDone{id: id, status: st})
	q.countError(st)
}

func (q *QP) countError(st device.Status) {
	if st == device.StatusOK {
		return
	}
	q.stats.SendErrors++
	if st == device.StatusRNR {
		q.stats.RNRs++
	}
}

// Doorbell implements device.QP.
func (q *QP) Doorbell() {
	if q.dead {
		return
	}
	if len(q.waiting) > 0 {
		q.resend()
	}
	q.carrier.Doorbell()
}

// Poll implements device.QP. Sends and arrivals take turns at being first, so that
// neither starves the other when c is short.
func (q *QP) Poll(c []device.Completion) int {
	if q.dead {
		return 0
	}
	if len(q.waiting) > 0 {
		q.resend()
	}
	q.arrivalsAt = !q.arrivalsAt
	if q.arrivalsAt {
		n := q.pollCarrier(c)
		return n + q.pollDone(c[n:])
	}
	n := q.pollDone(c)
	return n + q.pollCarrier(c[n:])
}

// pollDone yields completed sends.
func (q *QP) pollDone(c []device.Completion) int {
	n := 0
	for n < len(c) && !q.done.empty() {
		d := q.done.pop()
		c[n] = device.Completion{}
		c[n].ID, c[n].Op, c[n].Status = d.id, device.OpSend, d.status
		n++
	}
	q.outstanding -= n
	return n
}

// pollCarrier yields the carrier's events, without those that are impossible.
func (q *QP) pollCarrier(c []device.Completion) int {
	got := q.carrier.Poll(c)
	n := 0
	for i := range c[:got] {
		e := &c[i]
		ok := false
		switch e.Op {
		case device.OpRecv:
			ok = q.onRecv(e)
		case device.OpSend:
			ok = q.onStatus(e)
		case device.OpWritten:
			ok = q.onWritten(e)
		case device.OpRefused:
			ok = q.onRefused(e)
		case device.OpFatal: // the last that is reported
			c[n] = *e
			q.dead, q.waiting = true, q.waiting[:0]
			q.done.drop()
			return n + 1
		case device.OpGone:
			e.AH = q.ahs.find(&e.SrcGID)
			ok = true
		default:
			q.stats.Refused++
		}
		if !ok {
			continue
		}
		if n != i {
			c[n] = *e
		}
		n++
	}
	return n
}

// onRecv checks an arrival and finds its sender. The slot and the length may
// come from memory that others write to.
func (q *QP) onRecv(e *device.Completion) bool {
	if e.ID >= uint64(len(q.slots)) || q.slots[e.ID] != slotPosted || uint(e.Len) > uint(q.cfg.MTU) {
		q.stats.Refused++
		return false
	}
	q.slots[e.ID] = slotOwned
	q.findSource(e)
	if e.AH == device.UnknownAH {
		q.stats.UnknownSenders++
	}
	q.stats.Recvs++
	if q.cfg.UserRecv {
		q.landed(e)
	}
	return true
}

// Arm implements device.QP.
func (q *QP) Arm() bool {
	if q.dead {
		return !q.closed // there is nothing to poll for
	}
	if !q.done.empty() {
		return false
	}
	if len(q.waiting) > 0 && !q.carrier.WakeAt(q.due) {
		return false
	}
	return q.carrier.Arm()
}

// FDs implements device.QP.
func (q *QP) FDs() []int { return q.carrier.FDs() }

// Close implements device.QP. A second one reports device.ErrClosed.
func (q *QP) Close() error {
	if q.closed {
		return device.ErrClosed
	}
	q.closed, q.dead, q.over = true, true, true
	err := q.carrier.Close()
	q.reqs, q.waiting, q.spare = nil, nil, nil // nothing of the caller's is kept
	return err
}
