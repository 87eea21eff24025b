package sim

import (
	"time"

	"github.com/efactor/efactor/actors/device"
)

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
