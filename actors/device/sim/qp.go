package sim

import (
	"fmt"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// QP is a queue pair on a fabric: nic's over a carrier of the fabric.
type QP struct {
	*nic.QP
	c *qp

	copied device.SendWR // what postCopy hands on
	bytes  []byte        // its packet
}

// PostSend implements device.QP.
func (q *QP) PostSend(wr *device.SendWR) error {
	f := q.c.fab
	switch {
	case f.direct.Load():
	case q.Outstanding() > 0 && q.c.queueFull(wr):
		return device.ErrQueueFull
	case f.virtual == nil && wr.Kind == device.WRSend && len(wr.More) == 0 && wr.Len() <= len(q.bytes):
		return q.postCopy(wr)
	}
	return q.QP.PostSend(wr)
}

// postCopy posts a copy of a packet. Another goroutine may deliver the packet while
// nic's PostSend still copies the bytes for a resend, and its receiver may write to
// where they come from, if that is a region.
func (q *QP) postCopy(wr *device.SendWR) error {
	h := copy(q.bytes, wr.Header)
	p := copy(q.bytes[h:], wr.Payload)
	q.copied = *wr
	q.copied.Header, q.copied.Payload = q.bytes[:h:h], q.bytes[h:h+p]
	err := q.QP.PostSend(&q.copied)
	wr.Over = q.copied.Over
	return err
}

// qp is the carrier of a queue pair and what others see of it.
type qp struct {
	fab   *Fabric
	dev   *Device
	qpn   uint16
	qkey  uint32
	src   nic.Source
	inbox *nic.Inbox

	vanished atomic.Bool // killed
	left     atomic.Bool // closed or killed: others look for its number again

	inflight atomic.Int32 // packets and statuses under way
	wake     clock.Time   // of the timer under way; guarded by fab

	// owned by the queue pair's shard
	routes  []route // by address handle
	staying []staying
}

// route is where an address handle leads; qp is the one used last.
type route struct {
	gid device.GID
	qp  *qp
}

var _ nic.Carrier = (*qp)(nil)

func newQP(d *Device, qpn uint16, cfg *device.QPConfig) (*QP, error) {
	mtu := d.info.MTU
	recv := make([]byte, cfg.RQDepth*mtu)
	c := &qp{
		fab: d.fab, dev: d, qpn: qpn, qkey: cfg.QKey,
		src: nic.Source{GID: d.port.gid, QPN: qpn, QKey: cfg.QKey},
		inbox: nic.NewInbox(nic.InboxConfig{
			QKey: cfg.QKey, MTU: mtu, Slots: cfg.RQDepth, Recv: recv, Stride: mtu,
			Events: cfg.SQDepth, Notify: cfg.Notify, Single: d.fab.virtual != nil,
			Unsolicited: d.info.UnsolicitedWrite,
		}),
	}
	ncfg := nic.Config{
		Carrier: c, Clock: d.fab.clk, QPN: qpn, Depth: cfg.SQDepth,
		RNRRetry: cfg.RNRRetry, Resent: cfg.Resent, RNRDelay: d.fab.cfg.RNRDelay,
		MTU: mtu, CopiesAtPost: d.info.CopiesAtPost,
		RDMARead: d.info.RDMARead, RDMAWrite: d.info.RDMAWrite, MaxRDMA: d.info.MaxRDMA,
		LocalKeys: d.info.LocalKeys, UnsolicitedWrite: d.info.UnsolicitedWrite, Regions: d.regions,
		Slots: cfg.RQDepth, Recv: recv, Stride: mtu, Datagram: cfg.Type == device.UD,
	}
	if d.info.Windows {
		ncfg.Windows = d.regions
	}
	if d.info.HoldsBack {
		ncfg.Holder = c.inbox
	}
	q, err := nic.New(ncfg)
	if err != nil {
		return nil, err
	}
	return &QP{QP: q, c: c, bytes: make([]byte, mtu)}, nil
}

func (c *qp) endpoint() Endpoint { return Endpoint{c.src.GID, c.qpn} }

// Route implements nic.Carrier.
func (c *qp) Route(ah device.AH, gid device.GID) error {
	f := c.dev.fab
	f.lock()
	defer f.unlock()
	if f.strike(FaultRefuseAH, &Event{From: c.endpoint(), To: Endpoint{GID: gid}}) != nil {
		return fmt.Errorf("%w: by a rule", device.ErrNoMemory)
	}
	for int(ah) >= len(c.routes) {
		c.routes = append(c.routes, route{})
	}
	c.routes[ah] = route{gid: gid}
	return nil
}

// Unroute implements nic.Carrier.
func (c *qp) Unroute(ah device.AH) { c.routes[ah] = route{} }

// staying is a payload that stays until Doorbell, and the copy that was made of it.
type staying struct{ copied, from []byte }

// Doorbell implements nic.Carrier. It delivers what is held back for a queue pair
// that sleeps, since that will not fetch it. In a simulation it copies what stays until now once
// more, so that an owner who has changed that too soon is found out.
func (c *qp) Doorbell() {
	f := c.fab
	for _, s := range c.staying {
		copy(s.copied, s.from)
	}
	c.staying = c.staying[:0]
	if f.virtual != nil || !f.moving.Load() {
		return
	}
	f.lock()
	keep := f.cfg.Window
	if f.flush {
		keep, f.flush = 0, false
	}
	f.pump(keep)
	f.unlock()
}

// PostRecv implements nic.Carrier.
func (c *qp) PostRecv(slots []int32) { c.inbox.PostRecv(slots) }

// Poll implements nic.Carrier. A caller that finds nothing has time to move
// packets.
func (c *qp) Poll(b []device.Completion) int {
	n := c.inbox.Poll(b)
	f := c.fab
	if n > 0 || len(b) == 0 || f.virtual != nil || !f.moving.Load() {
		return n
	}
	f.lock()
	f.pump(0)
	f.unlock()
	return c.inbox.Poll(b)
}

// Arm implements nic.Carrier. In real time no other goroutine moves what this queue
// pair sent, so it must not sleep before that arrived.
func (c *qp) Arm() bool {
	f := c.fab
	switch {
	case c.vanished.Load():
		return true
	case f.virtual != nil || f.direct.Load() && c.inflight.Load() == 0:
		return c.inbox.Arm()
	}
	f.lock()
	defer f.unlock()
	f.pump(0)
	return c.inflight.Load() == 0 && c.inbox.Arm()
}

// WakeAt implements nic.Carrier: there are timers in virtual time only.
func (c *qp) WakeAt(t clock.Time) bool {
	f := c.fab
	if f.virtual == nil {
		return false
	}
	if c.wake != 0 && c.wake <= t {
		return true
	}
	fl := f.newFlight(wakeFlight)
	fl.src = c
	f.depart(fl, t.Sub(f.clk.Now()))
	c.wake = fl.at
	return true
}

// FDs implements nic.Carrier.
func (c *qp) FDs() []int { return nil }

// Close implements nic.Carrier. Packets in flight still arrive.
func (c *qp) Close() error {
	f := c.fab
	f.lock()
	defer f.unlock()
	if f.virtual == nil {
		f.pump(0)
	}
	for _, fl := range f.flights {
		if fl.src == c && fl.what == requestFlight && fl.wr.Kind == device.WRSend && (f.cfg.CopyLate || c.gathers(&fl.wr)) {
			f.take(fl)
		}
	}
	f.dropRDMA(c)
	c.left.Store(true)
	c.inbox.Close()
	f.forget(c)
	f.hook(Event{Kind: EventClose, From: c.endpoint()})
	if f.cfg.ReportGone && !c.vanished.Load() {
		f.reportGone(c, true)
		if f.virtual == nil {
			f.pump(0)
		}
	}
	return nil
}

// Send implements nic.Carrier.
func (c *qp) Send(wr *device.SendWR, token uint64) device.Status {
	if c.gathers(wr) {
		r := c.dev.regions.HoldLocal(wr.LKey, wr.Payload, 0)
		if r == nil {
			return device.StatusInvalidLKey
		}
		r.Release()
	}
	dst := c.near(wr)
	if dst == nil {
		if dst = c.seek(wr); dst == nil {
			c.fab.send(c, wr, token)
			return nic.Pending
		}
	}
	return dst.inbox.Place(&c.src, wr)
}

// gathers reports whether the payload of a packet is read from its place.
func (c *qp) gathers(wr *device.SendWR) bool {
	return wr.Kind == device.WRSend && wr.LKey != 0 && c.dev.info.Gathers
}

// direct reports whether packets of c may be delivered directly.
func (c *qp) direct() bool { return c.fab.direct.Load() && !c.vanished.Load() }

// near returns the receiver of wr if it may be delivered directly, and is where it was the last time.
func (c *qp) near(wr *device.SendWR) *qp {
	if dst := c.routes[wr.AH].qp; dst != nil && dst.qpn == wr.QPN && !dst.left.Load() && c.direct() {
		return dst
	}
	return nil
}

// seek returns the receiver of wr, wherever it is, if it may be delivered directly.
func (c *qp) seek(wr *device.SendWR) *qp {
	if !c.direct() {
		return nil
	}
	r := &c.routes[wr.AH]
	r.qp = c.fab.find(c, Endpoint{r.gid, wr.QPN})
	return r.qp
}

func (c *qp) queueFull(wr *device.SendWR) bool {
	f := c.fab
	f.lock()
	defer f.unlock()
	if len(f.rules[FaultQueueFull]) == 0 || int(wr.AH) >= len(c.routes) {
		return false
	}
	ev := requestEvent(EventPost, 0, c, Endpoint{c.routes[wr.AH].gid, wr.QPN}, wr)
	return f.strike(FaultQueueFull, &ev) != nil
}

// Register implements device.Device.
func (d *Device) Register(mem []byte, a device.Access) (device.MR, error) {
	d.fab.lock()
	defer d.fab.unlock()
	if err := d.admitRegion(); err != nil {
		return nil, err
	}
	return d.regions.Register(mem, a)
}

// Alloc implements device.Device.
func (d *Device) Alloc(n int, a device.Access) (device.MR, error) {
	d.fab.lock()
	defer d.fab.unlock()
	if err := d.admitRegion(); err != nil {
		return nil, err
	}
	return d.regions.Alloc(n, a)
}

func (d *Device) admitRegion() error {
	switch {
	case d.closed || d.killed:
		return device.ErrClosed
	case d.fab.strike(FaultRefuseMR, &Event{From: Endpoint{GID: d.port.gid}}) != nil:
		return fmt.Errorf("%w: by a rule", device.ErrNoMemory)
	}
	return nil
}

// RDMA implements nic.Carrier.
func (c *qp) RDMA(wr *device.SendWR, token uint64) device.Status {
	if dst := c.near(wr); dst != nil {
		return c.access(dst, &c.src, wr)
	}
	c.fab.send(c, wr, token)
	return nic.Pending
}

// access performs c's request at dst.
func (c *qp) access(dst *qp, from *nic.Source, wr *device.SendWR) device.Status {
	mine, theirs := &c.dev.info, &dst.dev.info
	switch {
	case wr.Kind == device.WRRead && !theirs.RDMARead,
		wr.Kind == device.WRWrite && !theirs.RDMAWrite,
		wr.HasImm && mine.UnsolicitedWrite != theirs.UnsolicitedWrite:
		return device.StatusMismatch
	case len(wr.Payload) > theirs.MaxRDMA:
		return device.StatusRemoteBadLength
	}
	if mine.LocalKeys {
		r := c.dev.regions.HoldLocal(wr.LKey, wr.Payload, nic.LocalAccess(wr.Kind))
		if r == nil { // closed since the post
			return device.StatusInvalidLKey
		}
		defer r.Release()
	}
	return dst.inbox.RDMA(from, wr, dst.dev.regions)
}
