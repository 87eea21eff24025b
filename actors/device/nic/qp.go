package nic

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// QP is a queue pair of a software device over a Carrier; it implements
// device.QP. One shard calls its methods.
type QP struct {
	device.QPBase
	carrier Carrier
	cfg     Config
	closed  bool
	dead    bool // closed, or OpFatal has come

	ahs ahTable

	// Invariant: outstanding = len(done) + Pending requests - completed + waiting resends,
	// and outstanding and completed <= cfg.Depth.
	outstanding int
	done        ring       // completed sends that were not polled
	reqs        []request  // sends whose status is not known yet
	freeReqs    []uint32   // indexes into reqs
	token       uint64     // of the newest in freeReqs; there is one if outstanding < cfg.Depth
	waiting     []uint32   // requests that wait to be sent again, oldest first
	due         clock.Time // of the earliest in waiting
	spare       [][]byte   // MTU-sized buffers of requests that ended
	completed   int        // datagrams that are over for the caller, and not for the carrier
	completedTo []int      // of them, by address handle

	slots      []slotState
	batch      []int32 // scratch of PostRecv
	arrivalsAt bool    // which side the next Poll looks at first

	stats Stats
}

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
	for i := requests - 1; i >= 0; i-- {
		q.freeReqs = append(q.freeReqs, uint32(i))
	}
	q.freed()
	return q, nil
}

// slotState says who owns a receive slot.
type slotState uint8

const (
	slotOwned  slotState = iota // with the caller
	slotPosted                  // with the carrier
)

var _ device.QP = (*QP)(nil)

// QPN implements device.QP.
func (q *QP) QPN() uint16 { return q.cfg.QPN }

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
func (q *QP) FDs() []int {
	if q.dead { // nothing is polled that would empty them
		return nil
	}
	return q.carrier.FDs()
}

// Close implements device.QP. A second one reports device.ErrClosed.
func (q *QP) Close() error {
	if q.closed {
		return device.ErrClosed
	}
	q.closed, q.dead = true, true
	err := q.carrier.Close()
	q.reqs, q.waiting, q.spare = nil, nil, nil // nothing of the caller's is kept
	return err
}

// Stats returns the counters so far. Only the owner may call it.
func (q *QP) Stats() Stats { return q.stats }

// Outstanding returns the number of sends that were not polled yet.
func (q *QP) Outstanding() int { return q.outstanding }

// AHs returns the number of address handles in use.
func (q *QP) AHs() int { return len(q.ahs.byGID) }

// Stats counts the events of a queue pair.
type Stats struct {
	Sends          uint64 // accepted by PostSend
	SendErrors     uint64 // completed with another status than ok
	QueueFull      uint64 // refused by PostSend: queue full
	RNRs           uint64 // refusals of a receiver that had nothing posted
	Resends        uint64 // device resends after one
	Recvs          uint64 // packets that arrived
	UnknownSenders uint64 // of them, without address handle
	Written        uint64 // writes with immediate that others made
	Denied         uint64 // RDMA requests of others that were refused
	BadPosts       uint64 // slots posted by a caller that did not own them
	Refused        uint64 // entries of the carrier that were impossible
	Lost           uint64 // datagrams of which it is known that they did not arrive
}

// What only some carriers can do follows; Config says what they can.

// Lend implements device.QP.
func (q *QP) Lend(_ uint8, lkey uint32, mem []byte) (uint64, error) {
	switch {
	case q.cfg.Windows == nil:
		return 0, device.ErrNotSupported
	case q.closed:
		return 0, device.ErrClosed
	}
	return q.cfg.Windows.Lend(lkey, mem)
}

// Return implements device.QP.
func (q *QP) Return(_ uint8, rkey uint64) {
	if q.cfg.Windows != nil {
		q.cfg.Windows.Return(rkey)
	}
}

// LendPlain implements device.QP.
func (q *QP) LendPlain(ah device.AH, qpn uint16, mem []byte) (rkey, addr uint64, err error) {
	switch {
	case q.cfg.Plain == nil:
		return 0, 0, device.ErrNotSupported
	case q.closed:
		return 0, 0, device.ErrClosed
	case !q.ahs.valid(ah):
		return 0, 0, device.ErrBadAH
	}
	return q.cfg.Plain.LendPlain(Source{GID: q.ahs.entries[ah].gid, QPN: qpn}, mem)
}

// Relend implements device.QP.
func (q *QP) Relend(_ uint8, rkey uint64, mem []byte) error {
	if q.cfg.Plain == nil {
		return device.ErrNotSupported
	}
	return q.cfg.Plain.Relend(rkey, mem)
}

// Pulse implements device.QP.
func (q *QP) Pulse(ah device.AH, qpn uint16) (uint32, bool) {
	if q.cfg.Pulser == nil {
		return 0, false
	}
	return q.cfg.Pulser.Pulse(ah, qpn)
}

// HoldBack implements device.QP.
func (q *QP) HoldBack(ah device.AH, qpn uint16, on bool, turn uint32) error {
	switch {
	case q.cfg.Holder == nil:
		return device.ErrNotSupported
	case !q.ahs.valid(ah):
		return device.ErrBadAH
	}
	q.cfg.Holder.HoldBack(Source{GID: q.ahs.entries[ah].gid, QPN: qpn}, on, turn)
	return nil
}

// Shut implements device.QP.
func (q *QP) Shut(ah device.AH, qpn uint16, qkey uint32) error {
	switch {
	case q.cfg.Holder == nil:
		return device.ErrNotSupported
	case !q.ahs.valid(ah):
		return device.ErrBadAH
	}
	q.cfg.Holder.Shut(Source{GID: q.ahs.entries[ah].gid, QPN: qpn, QKey: qkey})
	return nil
}

// Why implements device.QP.
func (q *QP) Why(ah device.AH) error {
	if q.cfg.Explainer == nil || !q.ahs.valid(ah) {
		return nil
	}
	return q.cfg.Explainer.Why(q.ahs.entries[ah].gid)
}

// sendDone is a completed send.
type sendDone struct {
	id     uint64
	status device.Status
}

// ring is the completion ring of the send queue. Invariant: never more entries
// than the queue has depth, so push needs no check.
type ring struct {
	buf        []sendDone
	mask       uint32
	head, tail uint32
}

func newRing(depth int) ring {
	size := uint32(1)
	for int(size) < depth {
		size <<= 1
	}
	return ring{buf: make([]sendDone, size), mask: size - 1}
}

func (r *ring) empty() bool { return r.head == r.tail }

func (r *ring) drop() { r.head = r.tail }

func (r *ring) push(d sendDone) {
	r.buf[r.tail&r.mask] = d
	r.tail++
}

func (r *ring) pop() sendDone {
	d := r.buf[r.head&r.mask]
	r.head++
	return d
}
