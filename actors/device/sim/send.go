package sim

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

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

// find returns the live queue pair at to that from reaches, or nil.
func (f *Fabric) find(from *qp, to Endpoint) *qp {
	f.lock()
	defer f.unlock()
	dst, _, _ := f.lookup(from, to)
	return dst
}

// send puts a packet or RDMA in flight. The local side of RDMA is the device's
// until the completion, so it is always read late.
func (f *Fabric) send(c *qp, wr *device.SendWR, token uint64) {
	if c.vanished.Load() {
		return
	}
	f.lock()
	defer f.unlock()
	f.seq++
	fl := f.newFlight(requestFlight)
	fl.seq, fl.src, fl.to = f.seq, c, Endpoint{c.routes[wr.AH].gid, wr.QPN}
	fl.wr, fl.token = *wr, token
	if wr.Kind == device.WRSend && !f.cfg.CopyLate && !c.gathers(wr) {
		f.take(fl)
	}
	ev := requestEvent(EventPost, fl.seq, c, fl.to, wr)
	f.hook(ev)
	d := f.cfg.Delay + f.upTo(f.cfg.Jitter)
	if r := f.strike(FaultDelay, &ev); r != nil {
		d += f.upTo(r.Delay)
	}
	c.inflight.Add(1)
	f.depart(fl, d)
	switch {
	case f.virtual != nil:
	case f.immediate():
		f.pump(0)
	case !f.flush:
		dst, _, _ := f.lookup(c, fl.to)
		f.flush = dst != nil && dst.inbox.Armed()
	}
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
