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
	token       uint64     // of the newest in freeReqs; there is one if outstanding < cfg.Depth
	waiting     []uint32   // requests that wait to be sent again, oldest first
	due         clock.Time // of the earliest in waiting
	spare       [][]byte   // MTU-sized buffers of requests that ended
	told        int        // datagrams that are over for the caller, and not for the carrier
	toldTo      []int      // of them, by address handle

	slots      []slotState
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
	q.holder, q.lending.ahs = holder{cfg.Holder, cfg.Explainer, &q.ahs}, &q.ahs
	for i := requests - 1; i >= 0; i-- {
		q.freeReqs = append(q.freeReqs, uint32(i))
	}
	q.freed()
	return q, nil
}

// QPN implements device.QP.
func (q *QP) QPN() uint16 { return q.cfg.QPN }

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	if wr.Kind != device.WRSend || len(wr.More) > 0 || q.cfg.Datagram {
		return q.postOther(wr)
	}
	if q.dead || len(wr.Header)+len(wr.Payload) > q.cfg.MTU || !q.ahs.valid(wr.AH) || q.outstanding >= q.cfg.Depth {
		return q.refuse(wr)
	}
	q.stats.Sends++
	st := q.carrier.Send(wr, q.token)
	if st == device.StatusOK && wr.Prompt {
		wr.Over = true
		return nil
	}
	q.outstanding++
	q.posted(wr, wr, st)
	return nil
}

// refuse is the error of PostSend for a request that cannot be posted, nil if there is none.
func (q *QP) refuse(wr *device.SendWR) error {
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
	return nil
}

// postOther is PostSend for what is not a packet in one or two pieces, or is a datagram.
func (q *QP) postOther(wr *device.SendWR) error {
	if err := q.refuse(wr); err != nil {
		return err
	}
	q.stats.Sends++
	q.outstanding++
	whole := wr
	if len(wr.More) > 0 {
		whole = q.gather(uint32(q.token), wr)
	}
	if q.cfg.Datagram {
		q.postDatagram(wr, whole)
	} else {
		q.posted(wr, whole, q.launch(whole, q.token))
	}
	return nil
}

// posted settles what became of a request, which the carrier had as whole.
func (q *QP) posted(wr, whole *device.SendWR, st device.Status) {
	i := uint32(q.token)
	switch {
	case st == Pending:
		q.hold(i, whole)
		q.reqs[i].state = reqPending
		return
	case st == device.StatusRNR && q.cfg.RNRRetry > 0:
		q.hold(i, whole)
		q.resendLater(i)
		return
	case st == device.StatusOK && wr.Prompt:
		wr.Over = true
		q.outstanding--
	default:
		q.finish(wr.ID, st)
	}
	if len(wr.More) > 0 {
		q.dropOwn(&q.reqs[i])
	}
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
