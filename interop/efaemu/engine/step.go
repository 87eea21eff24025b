package engine

import "github.com/efactor/efactor/actors/device"

// round lets each queue pair do a part of its work, and reports events. worked:
// something was done; holding: packets wait to be shuffled.
func (e *Engine) round() (worked, holding bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = e.cfg.Clock.Now()
	e.lookAlive()
	// Receives that a program posted before it rang for a send must be there when that
	// arrives: so the send doorbells are read first, and then the receives taken.
	for _, q := range e.qps {
		if q.state < gone { // also where sends aren't due yet
			q.lookSQ()
		}
	}
	for _, q := range e.qps {
		if q.state < gone {
			worked = q.fetchReceives() || worked
		}
		if q.state == rtr || q.state == rts {
			q.refill()
		}
	}
	for _, q := range e.qps {
		w, h := q.step()
		worked, holding = worked || w, holding || h
	}
	for _, c := range e.cqs {
		worked = c.step() || worked
	}
	return worked, holding
}

// step is a queue pair's round. Packets sent in it may arrive in it, too, at a
// queue pair whose turn is later. Any part may find that the queue pair has failed
// or that its program is gone.
func (q *QP) step() (worked, holding bool) {
	switch q.state {
	case gone, closed:
		return false, false
	case failed:
		return q.flushPosted(), false
	case reset, ready:
		return false, false
	case rtr, rts:
	}
	if q.state == rts {
		worked = q.stepSend() || worked
	}
	if q.state < failed {
		worked = q.stepStarved() || worked
	}
	if q.state < failed {
		worked = q.poll() || worked
	}
	if q.state < failed {
		q.refill()
	}
	return worked, q.sq.hold.holding() && q.sq.out < q.sq.depth
}

// poll takes the device's completions.
func (q *QP) poll() bool {
	comps := &q.e.comps
	n := q.dev.Poll(comps[:])
	for i := range comps[:n] {
		if q.state >= failed {
			break
		}
		switch c := &comps[i]; c.Op {
		case device.OpSend:
			q.sent(c)
		case device.OpRecv, device.OpWritten:
			q.arrived(c)
		case device.OpGone: // the device that is emulated says nothing of these
			q.e.stats.Gone++
		case device.OpRefused:
			q.e.stats.Refused++
		case device.OpFatal:
			q.fail()
		case device.OpPlaced: // no: it has no Place
		}
	}
	return n > 0
}
