package sim

import (
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/clock"
)

// flight is something in flight: a packet, a status or a timer.
type flight struct {
	at   clock.Time // 0: at any time, only the shuffling keeps it
	key  uint64     // orders flights of the same time
	seq  uint64     // of the request
	what flightKind

	src *qp // the requester: gets the status or the wake-up
	to  Endpoint

	// of requests and their statuses
	wr     device.SendWR
	token  uint64
	buf    []byte // the bytes of a packet lie here, unless CopyLate
	status device.Status

	// of deaths
	dead     nic.Source
	deadQKey uint32
	orderly  bool // it was closed
}

type flightKind uint8

const (
	requestFlight flightKind = iota // a packet or RDMA
	statusFlight
	goneFlight
	wakeFlight
	droppedFlight // RDMA of a queue pair that is no more
)

// Endpoint is a queue pair's place on the fabric.
type Endpoint struct {
	GID device.GID
	QPN uint16
}

// newFlight returns an empty flight, keeping the buffer of an earlier one.
func (f *Fabric) newFlight(what flightKind) *flight {
	n := len(f.spare)
	if n == 0 {
		return &flight{what: what}
	}
	fl := f.spare[n-1]
	f.spare = f.spare[:n-1]
	*fl = flight{what: what, buf: fl.buf}
	return fl
}

// take copies a packet's bytes into the flight.
func (f *Fabric) take(fl *flight) {
	if fl.buf == nil {
		fl.buf = make([]byte, f.cfg.MTU)
	}
	h := copy(fl.buf, fl.wr.Header)
	p := copy(fl.buf[h:], fl.wr.Payload)
	fl.wr.Header, fl.wr.Payload = fl.buf[:h], fl.buf[h:h+p]
}

// depart puts fl in flight for d; with 0, only shuffling keeps it.
func (f *Fabric) depart(fl *flight, d time.Duration) {
	fl.at = 0
	if d > 0 || f.virtual != nil {
		fl.at = f.clk.Now().Add(d)
	}
	fl.key = 0
	if !f.cfg.InOrder {
		fl.key = f.rng.Uint64()
	}
	if fl.at == 0 {
		f.held++
	}
	f.flights.push(fl)
	f.moving.Store(true)
}

func (f *Fabric) pop() *flight {
	fl := f.flights.pop()
	if fl.at == 0 {
		f.held--
	}
	f.moving.Store(len(f.flights) > 0)
	return fl
}

// pump performs the events that are due, except for keep requests that are held
// back only to change places. Real time only.
func (f *Fabric) pump(keep int) {
	if len(f.flights) == 0 {
		return
	}
	now := f.clk.Now()
	for len(f.flights) > 0 {
		top := f.flights[0]
		if top.at > now || top.at == 0 && f.held <= keep {
			return
		}
		f.happen(f.pop())
	}
}

// flightHeap is a binary heap by time, key and sequence.
type flightHeap []*flight

func (a *flight) before(b *flight) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.key != b.key {
		return a.key < b.key
	}
	return a.seq < b.seq
}

func (h *flightHeap) push(fl *flight) {
	*h = append(*h, fl)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *flightHeap) pop() *flight {
	s := *h
	top, n := s[0], len(s)-1
	s[0], s[n] = s[n], nil
	s = s[:n]
	*h = s
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < n && s[c].before(s[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// lateStatus: one status in this many comes apart from the delivery on a shuffled
// virtual fabric, so that an answer can overtake the completion of its request.
const lateStatus = 4

// happen performs the event that fl stands for and recycles fl.
func (f *Fabric) happen(fl *flight) {
	switch fl.what {
	case requestFlight:
		if d := f.standsStill(fl.to); d > 0 {
			f.depart(fl, d)
			return
		}
		st, after := f.arrive(fl)
		if after > 0 || f.statusIsLate() {
			fl.what, fl.status = statusFlight, st
			fl.wr.Header, fl.wr.Payload = nil, nil
			f.depart(fl, after)
			return
		}
		f.complete(fl, st)
	case statusFlight:
		f.complete(fl, fl.status)
	case goneFlight:
		if d := f.standsStill(fl.to); d > 0 && fl.orderly { // and so does what it sent
			f.depart(fl, d+1)
			return
		}
		f.hook(Event{Kind: EventGone, From: Endpoint{fl.dead.GID, fl.dead.QPN}, To: fl.to})
		if fl.orderly {
			fl.src.inbox.Left(&fl.dead, fl.deadQKey)
		} else {
			fl.src.inbox.Gone(&fl.dead, fl.deadQKey)
		}
	case wakeFlight:
		if fl.src.wake == fl.at {
			fl.src.wake = 0
		}
		fl.src.inbox.Wake()
	case droppedFlight:
	}
	fl.src, fl.wr = nil, device.SendWR{}
	f.spare = append(f.spare, fl)
}

func (f *Fabric) statusIsLate() bool {
	return f.virtual != nil && !f.cfg.InOrder && f.rng.Uint32N(lateStatus) == 0
}

// complete reports the status to the sender.
func (f *Fabric) complete(fl *flight, st device.Status) {
	fl.src.inflight.Add(-1)
	f.hook(Event{Kind: EventStatus, Seq: fl.seq, From: fl.src.endpoint(), To: fl.to, WR: fl.wr.Kind, Status: st})
	fl.src.inbox.Ack(fl.token, st)
}

// arrive brings a request to its receiver, if there is one. The sender gets the
// status after the duration it returns.
func (f *Fabric) arrive(fl *flight) (device.Status, time.Duration) {
	ev := requestEvent(EventArrive, fl.seq, fl.src, fl.to, &fl.wr)
	dst, st, after := f.lookup(fl.src, fl.to)
	if dst != nil {
		st, after = f.place(dst, fl, &ev)
	}
	ev.Status = st
	f.hook(ev)
	return st, after
}

func (f *Fabric) place(dst *qp, fl *flight, ev *Event) (device.Status, time.Duration) {
	var after time.Duration
	if r := f.strike(FaultLateStatus, ev); r != nil {
		after = f.upTo(r.Delay)
	}
	if r := f.strike(FaultStatus, ev); r != nil {
		return r.Status, after
	}
	from := fl.src.src
	if fl.wr.Kind == device.WRSend || fl.wr.HasImm { // shown to the receiver
		if f.strike(FaultRNR, ev) != nil {
			return device.StatusRNR, after
		}
		from.Unknown = f.strike(FaultUnknownAH, ev) != nil
	}
	if fl.wr.Kind != device.WRSend {
		return fl.src.access(dst, &from, &fl.wr), after
	}
	return dst.inbox.Place(&from, &fl.wr), after
}

// lookup finds the queue pair at to that from reaches, or returns the status and the delay
// with which a send there ends.
func (f *Fabric) lookup(from *qp, to Endpoint) (*qp, device.Status, time.Duration) {
	p := f.ports[to.GID]
	if p == nil || p.net != from.dev.port.net {
		return nil, device.StatusUnreachable, f.cfg.Unresponsive
	}
	dst := p.qps[to.QPN]
	switch {
	case dst != nil && dst.vanished.Load():
		return nil, device.StatusUnresponsive, f.cfg.Unresponsive
	case dst != nil:
		return dst, device.StatusOK, 0
	case p.devices == 0:
		return nil, device.StatusUnreachable, f.cfg.Unresponsive
	default:
		return nil, device.StatusBadDestQPN, 0
	}
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
		if wr.Stays && f.virtual != nil {
			c.staying = append(c.staying, staying{fl.wr.Payload, wr.Payload})
		}
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

// dropRDMA drops the requests of a closed queue pair: their memory is the caller's
// again, and their bytes were not copied.
func (f *Fabric) dropRDMA(c *qp) {
	for _, fl := range f.flights {
		if fl.src == c && fl.what == requestFlight && fl.wr.Kind != device.WRSend {
			fl.what, fl.wr = droppedFlight, device.SendWR{}
		}
	}
}
