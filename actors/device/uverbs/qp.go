//go:build linux

package uverbs

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// QP is a queue pair with its completion queue; it implements [device.QP].
type QP struct {
	device.QPBase
	dev    *Device
	res    *resources
	number uint16
	mtu    int

	datagram bool // UD

	sq    sendQueue
	rq    recvQueue
	cq    *completionQueue
	peers peers
	fds   []int

	armed  bool   // since the last Poll
	empty  uint16 // polls that found nothing, modulo
	failed bool   // OpFatal is to be told, or was
	told   bool   // OpFatal was told
	status device.Status
	closed bool

	stale uint64 // completions of queue pairs that are gone
}

var _ device.QP = (*QP)(nil)

// OpenQP implements device.Device. A device that does not let RNRRetry be set resends for
// as long as it likes.
func (d *Device) OpenQP(cfg device.QPConfig) (device.QP, error) {
	if cfg.SQDepth == 0 {
		cfg.SQDepth = min(DefaultSQ, d.info.MaxSQ)
	}
	if cfg.RQDepth == 0 {
		cfg.RQDepth = min(DefaultRQ, d.info.MaxRQ)
	}
	if err := d.check(&cfg); err != nil {
		return nil, err
	}
	if err := d.users.Acquire(); err != nil {
		return nil, err
	}
	q := &QP{dev: d, res: newResources(d.ctx), peers: peers{all: &d.ahs}, mtu: d.info.MTU}
	if err := q.build(&cfg); err != nil {
		err = errors.Join(err, q.res.close())
		d.users.Release()
		return nil, err
	}
	return q, nil
}

func (d *Device) check(c *device.QPConfig) error {
	if err := device.Check(d.info, *c); err != nil {
		return err
	}
	most := int(d.ctx.core.MaxCQE)
	switch {
	case c.SQDepth < 0 || c.RQDepth < 0 || c.RNRRetry > maxRNRRetry:
		return fmt.Errorf("%w: %+v", ErrConfig, *c)
	case c.SQDepth > d.info.MaxSQ || c.RQDepth > d.info.MaxRQ || d.completions(c) > most:
		return fmt.Errorf("%w: queues of %d and %d on %s: at most %d and %d, together %d",
			device.ErrNotSupported, c.SQDepth, c.RQDepth, d.info.Name, d.info.MaxSQ, d.info.MaxRQ, most)
	case c.QPN != 0:
		return fmt.Errorf("%w: %s chooses numbers of queue pairs itself", device.ErrNotSupported, d.info.Name)
	case c.QKey&abi.QKeyPrivileged != 0:
		return fmt.Errorf("%w: Q_Key %#x: bit 31 is the kernel's on %s", device.ErrNotSupported, c.QKey, d.info.Name)
	}
	return nil
}

// maxRNRRetry is the number of resends that has no end.
const maxRNRRetry = 7

// geometry is the shape of the rings for the depths in c.
func (d *Device) geometry(c *device.QPConfig) geometry {
	return geometry{
		sq: roundUp(max(c.SQDepth, int(d.ctx.limits.MinSQ))), rq: roundUp(c.RQDepth), wqe: d.wqe, inline: d.inline,
		sges: min(int(d.ctx.efa.MaxSGESQ), abi.MaxSendSGE),
	}
}

// completions is how deep the completion queue is: a device does not heed that it is
// full, so there is an entry for everything that can complete.
func (d *Device) completions(c *device.QPConfig) int {
	g := d.geometry(c)
	n := roundUp(g.sq + g.rq)
	if d.ctx.unsolicited {
		n = max(n, min(4*n, roundDown(int(d.ctx.core.MaxCQE)))) // and for writes, which nothing bounds
	}
	return n
}

// stride is the MTU rounded up to whole cache lines.
func stride(mtu int) int { return (mtu + 63) &^ 63 }

// build makes everything that a queue pair has. After an error res.close undoes it.
func (q *QP) build(c *device.QPConfig) error {
	d, r, g := q.dev, q.res, q.dev.geometry(c)
	serial := d.serial()
	q.sq.init(g, c.SQDepth, uint16(serial))
	q.rq.init(c.RQDepth, uint16(serial))
	q.sq.batch = g.most(&d.ctx.limits)

	if q.datagram = c.Type == device.UD; q.datagram {
		q.rq.head = abi.RouteHeaderLen
	}
	each, slot := stride(d.info.MTU), stride(d.info.MTU+q.rq.head)
	if err := r.openMemory(slot*c.RQDepth + each*c.SQDepth); err != nil {
		return err
	}
	received := slot * c.RQDepth
	q.rq.mem, q.rq.each, q.rq.mtu, q.rq.lkey = r.arena[:received], slot, q.mtu, r.reg.lkey
	q.sq.copies, q.sq.each, q.sq.lkey = r.arena[received:], each, r.reg.lkey

	if err := r.openEvents(); err != nil {
		return err
	}
	vector := uint32(0)
	if n := d.ctx.vectors; n > 0 {
		vector = uint32(serial) % n
	}
	cq, err := r.openCQ(d.completions(c), vector)
	if err != nil {
		return err
	}
	q.cq = cq
	resp, err := r.create(g, q.datagram)
	if err != nil {
		return err
	}
	if q.rq.descs, q.rq.db, err = r.mapRQ(g, &resp); err != nil {
		return err
	}
	if q.sq.llq, q.sq.db, err = r.mapSQ(g, &resp); err != nil {
		return err
	}
	if err := r.start(c.QKey, c.RNRRetry, q.datagram); err != nil {
		return err
	}
	q.number = r.number
	for _, f := range []eventFile{r.channel, r.async} {
		if f != noEvents {
			q.fds = append(q.fds, int(f))
		}
	}
	return nil
}

// QPN implements device.QP.
func (q *QP) QPN() uint16 { return q.number }

// CreateAH implements device.QP.
func (q *QP) CreateAH(gid device.GID) (device.AH, error) {
	if q.closed {
		return device.UnknownAH, device.ErrClosed
	}
	return q.peers.create(gid)
}

// DestroyAH implements device.QP.
func (q *QP) DestroyAH(ah device.AH) error {
	if q.closed {
		return device.ErrClosed
	}
	return q.peers.destroy(ah)
}

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	if q.closed || q.failed {
		return device.ErrClosed
	}
	if !q.peers.knows(wr.AH) {
		return device.ErrBadAH
	}
	if wr.Kind != device.WRSend {
		return q.postRDMA(wr)
	}
	size := wr.Len()
	switch {
	case size > q.mtu:
		return device.ErrTooLong
	case wr.Pieces() > q.dev.info.MaxPieces:
		return device.ErrNotSupported
	}
	n, ok := q.sq.begin(wr)
	if !ok {
		return device.ErrQueueFull
	}
	q.sq.send(n, wr, size)
	q.sq.stageWork()
	return nil
}

func (q *QP) postRDMA(wr *device.SendWR) error {
	info, op := &q.dev.info, abi.WorkRead
	switch {
	case q.datagram:
		return device.ErrNotSupported
	case wr.Kind == device.WRRead && info.RDMARead && !wr.HasImm:
	case wr.Kind == device.WRWrite && info.RDMAWrite:
		op = abi.WorkWrite
	default:
		return device.ErrNotSupported
	}
	switch {
	case len(wr.Header) > 0 || wr.Pieces() > info.MaxRDMAPieces:
		return device.ErrNotSupported
	case wr.Len() > info.MaxRDMA:
		return device.ErrTooLong
	}
	n, ok := q.sq.begin(wr)
	if !ok {
		return device.ErrQueueFull
	}
	if wr.RKey>>32 != 0 { // no card's: with its lower half alone it might be another region's
		q.sq.refused = append(q.sq.refused, n)
		return nil
	}
	q.sq.rdma(op, wr)
	q.sq.stageWork()
	return nil
}

// RecvSlots implements device.QP.
func (q *QP) RecvSlots() int { return len(q.rq.with) }

// RecvBytes implements device.QP.
func (q *QP) RecvBytes(slot int) []byte { return q.rq.slot(slot) }

// PostRecv implements device.QP.
func (q *QP) PostRecv(slots []int32) {
	if !q.closed && !q.failed {
		q.rq.post(slots)
	}
}

// Doorbell implements device.QP.
func (q *QP) Doorbell() {
	if !q.closed && !q.failed {
		q.sq.flush()
	}
}

// Close implements device.QP.
func (q *QP) Close() error {
	if q.closed {
		return device.ErrClosed
	}
	q.closed = true
	q.lookAsync()
	q.sq.llq, q.sq.copies, q.rq.descs, q.rq.mem, q.cq, q.fds = nil, nil, nil, nil, nil, nil
	q.rq.with = nil
	err := errors.Join(q.res.close(), q.peers.close())
	q.dev.users.Release()
	return err
}
