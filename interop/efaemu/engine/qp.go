package engine

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// state is where a queue pair stands.
//
//	        Init         Receive        Send
//	reset --------> init --------> rtr ------> rts
//	  ^ ^             |             |           |
//	  | |             +---- Fail ---+-----------+---> failed
//	  | +---------------------- Reset ------------------+
//
// and from everywhere closed, by Close, or gone when the program's memory is.
type state uint8

const (
	reset  state = iota
	ready        // INIT: receives may be posted
	rtr          // packets arrive
	rts          // and go out
	failed       // ERR: posted requests are flushed
	gone         // the program's memory is gone; nothing is looked at
	closed
)

// maxSlots bounds the receive slots of a device's queue pair, which take an MTU each.
const maxSlots = 512

// QP is a queue pair.
type QP struct {
	e      *Engine
	cfg    QPConfig
	where  string // in findings
	number uint16
	slot   uint16 // of its number, in Engine.slots
	state  state
	qkey   uint32

	// dev is a placeholder that keeps the number, refuses packets and sends none,
	// but from RTR until ERR the real one. nil: it could not be opened.
	dev    device.QP
	routes routes
	rnr    uint8 // retries after RNR that are this engine's to do

	sq sendQueue
	rq recvQueue
}

// NewQP makes a queue pair and reserves its number. device.ErrNoMemory: there are
// too many.
func (e *Engine) NewQP(cfg QPConfig) (*QP, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.checkQP(&cfg); err != nil {
		return nil, err
	}
	dev, err := e.reserve()
	if err != nil {
		return nil, err
	}
	q := &QP{e: e, cfg: cfg, dev: dev, number: dev.QPN(), slot: dev.QPN() & e.mask}
	q.where = fmt.Sprintf("qp %d", q.number)
	e.slots[q.slot], e.lastQPN = true, q.number
	e.opened++
	q.sq.init(e, &cfg)
	q.rq.init(&cfg)
	e.qps = append(e.qps, q)
	return q, nil
}

func (e *Engine) checkQP(c *QPConfig) error {
	usable := func(cq *CQ, sub int) bool {
		return cq != nil && cq.usable && cq.e == e && sub >= 0 && sub < cq.cfg.SubCQs
	}
	switch {
	case c.PD == nil || c.PD.closed || c.PD.e != e || c.Space == nil:
		return fmt.Errorf("%w: queue pair without protection domain or memory", ErrConfig)
	case !usable(c.SendCQ, c.SendSub) || !usable(c.RecvCQ, c.RecvSub):
		return fmt.Errorf("%w: completion queue", ErrConfig)
	case c.WQESize != abi.WQELen && c.WQESize != abi.WideWQELen, !powerOfTwo(c.SQEntries, 1<<15),
		len(c.SQ) < c.SQEntries*c.WQESize, !aligned(c.SQDoorbell, 4):
		return fmt.Errorf("%w: send queue of %d times %d bytes", ErrConfig, c.SQEntries, c.WQESize)
	case c.RQEntries != 0 && (!powerOfTwo(c.RQEntries, 1<<15) || len(c.RQ) < c.RQEntries*abi.RxDescLen ||
		c.MaxRecvSGE < 1 || !aligned(c.RQDoorbell, 4)):
		return fmt.Errorf("%w: receive queue of %d entries, %d buffers each", ErrConfig, c.RQEntries, c.MaxRecvSGE)
	}
	return nil
}

// Number is the queue pair number, from NewQP on.
func (q *QP) Number() uint16 { return q.number }

// Init is the way to INIT, or sets another Q_Key there: receives may be posted from
// here on.
func (q *QP) Init(qkey uint32) {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if q.state == reset || q.state == ready {
		q.state, q.qkey = ready, qkey
	}
}

// Receive is the transition to RTR: the device's queue pair is opened under its
// number. device.ErrQPNInUse: the number was taken; device.ErrNoMemory.
func (q *QP) Receive() error {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if q.state != ready {
		return fmt.Errorf("%w: RTR not from INIT", ErrConfig)
	}
	q.closeDevice()
	slots := min(q.cfg.RQEntries, maxSlots, q.e.info.MaxRQ)
	dev, err := q.e.cfg.Device.OpenQP(device.QPConfig{
		SQDepth: min(q.cfg.SQEntries, q.e.info.MaxSQ), RQDepth: max(slots, 1), QPN: q.number, QKey: q.qkey,
	})
	if err != nil {
		q.dev, _ = q.e.openPlaceholder(q.number)
		return err
	}
	q.dev, q.state = dev, rtr
	q.rq.free = q.rq.free[:0]
	for i := min(slots, dev.RecvSlots()) - 1; i >= 0; i-- {
		q.rq.free = append(q.rq.free, int32(i))
	}
	return nil
}

// Send is the way to RTS. rnrRetry is how often a packet is sent again that met no
// receive; 7: for ever.
func (q *QP) Send(rnrRetry uint8) error {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if q.state != rtr {
		return fmt.Errorf("%w: RTS not from RTR", ErrConfig)
	}
	if q.cfg.Datagram {
		rnrRetry = 0
	}
	if err := q.dev.SetRNRRetry(rnrRetry); err != nil { // then it is ours to send again
		q.rnr = min(rnrRetry, forever)
	}
	q.state = rts
	return nil
}

// Fail is the transition to ERR: all requests that are posted, now or later,
// complete with device.StatusFlushed. Others see status 9.
func (q *QP) Fail() {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	q.fail()
}

func (q *QP) fail() {
	if q.state >= failed {
		return
	}
	if q.state >= rtr {
		q.stepStarved()
	}
	if q.state >= failed { // the program's memory is gone
		return
	}
	q.state = failed
	q.closeDevice()
	q.dev, _ = q.e.openPlaceholder(q.number) // nil is good enough now
	q.flush()
}

// Reset is the way back to RESET, from everywhere: queues are empty again and count
// from 0, and nothing completes.
func (q *QP) Reset() {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if q.state >= gone || q.state == reset {
		return
	}
	q.drop()
	store(q.cfg.SQDoorbell, 0)
	if q.cfg.RQEntries > 0 {
		store(q.cfg.RQDoorbell, 0)
	}
	if q.state > ready {
		q.closeDevice()
		q.dev, _ = q.e.openPlaceholder(q.number)
	}
	q.state, q.rnr = reset, 0
	q.sq.init(q.e, &q.cfg)
	q.sq.lapKnown = false // libraries go on with the phase that they had
	q.rq.init(&q.cfg)
}

// Close destroys the queue pair: nothing completes afterwards, no memory is touched.
func (q *QP) Close() {
	q.e.mu.Lock()
	defer q.e.mu.Unlock()
	if q.state == closed {
		return
	}
	q.drop()
	q.closeDevice()
	q.state = closed
	delete(q.e.slots, q.slot)
	q.e.qps = forget(q.e.qps, q)
}

// vanish ends a queue pair of a program whose memory is gone though its files
// aren't yet.
func (q *QP) vanish() {
	if q.state >= gone {
		return
	}
	q.state = gone
	q.drop()
	q.closeDevice()
}

// closeDevice ends the device's queue pair. Its requests end with it, and its
// address handles.
func (q *QP) closeDevice() {
	if q.dev != nil {
		_ = q.dev.Close()
		q.dev = nil
	}
	q.routes = routes{}
}

// drop forgets all that is posted and under way. The device's queue pair must be
// closed before its next Poll.
func (q *QP) drop() {
	q.sq.drop(q.e)
	q.rq.drop()
}
