package peer

import (
	"math/rand/v2"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// onProblem deals with a packet whose send did not simply succeed.
func (p *Peer) onProblem(pke *device.Pke, s device.Status) {
	if p.link.place == PlaceOnTrial || p.link.load.flags.has(questioned) {
		p.onChecked(pke, s)
	}
	switch {
	case s == device.StatusOK:
		p.onWatchedSuccess(pke)
	case p.link.Err != nil:
		if s == device.StatusBadDestQPN && p.link.load.life == Away {
			p.link.Err = p.statusError(s) // so that it is given up, see HasLeft
		}
		p.sendFailed(pke, s)
	case s == device.StatusRNR:
		p.onRNR(pke)
	case !pke.Resent && (s == device.StatusQPInternal || s == device.StatusAbort && lastWord(pke)):
		// Our device was out of descriptors for a moment, say, or a connection was cut.
		pke.Resent = true
		p.resend(pke)
	default:
		// An answer to a peer that has left is no reason to fail it: packets that it
		// sent before may still be under way here (§2.3).
		answer := pke.Type() == uint8(wire.TypeHandshake)
		p.sendFailed(pke, s)
		if s.Gone() && !answer {
			p.failStatus(s)
		} else if !p.link.BackingOff() {
			p.resendRefused()
		}
	}
}

// lastWord reports whether a packet is the last of a message, without which the peer would
// wait forever. It does no harm if it arrives twice.
func lastWord(pke *device.Pke) bool {
	return pke.Kind() == device.WRSend && (pke.Type() == uint8(wire.TypeReceipt) || pke.Type() == uint8(wire.TypeEOR))
}

// onRNR sends the packet again: at once the first time, after back-off if it was
// refused again.
func (p *Peer) onRNR(pke *device.Pke) {
	p.env.Trail.Put(pke.Span, trail.RNR, pke.Type(), 0, 0)
	if !pke.PutOff && pke.Begins() && p.link.path().HoldsBack {
		pke.PutOff = true
		p.link.load.putOff++
	}
	if !pke.Resent && !p.link.BackingOff() {
		pke.Resent, pke.Watch = true, true
		p.resend(pke)
		return
	}
	if pke.Resent && !p.link.BackingOff() {
		p.beginBackoff()
	}
	pke.Resent = true
	pke.Next = nil
	p.env.Trail.Put(pke.Span, trail.Waits, uint8(trail.ForBackoff), 0, 0)
	if p.refusedTail == nil {
		p.link.load.refused = pke
	} else {
		p.refusedTail.Next = pke
	}
	p.refusedTail = pke
	p.env.Q.Park(pke)
}

func (p *Peer) resend(pke *device.Pke) (posted bool) {
	p.env.Counters.Resent++
	pke.Watch = true
	pke.SentAgain()
	if err := p.env.Q.Post(pke); err != nil {
		p.env.LogOf(p.link).Warn("resend", "err", err)
		p.sendFailed(pke, device.StatusQPInternal)
		return false
	}
	return true
}

func (p *Peer) beginBackoff() {
	p.link.SetBackingOff(true)
	p.env.Counters.Backoffs++
	if p.backoffOver == nil {
		p.backoffOver = new(backoffOver)
	}
	b := p.backoffOver
	b.since = p.env.now()
	d := p.backoff.Next(p.env.Sh.Rand())
	p.env.Sh.StartTimer(&b.timer, d, p.link.Peer, b)
	p.env.Trail.Put(p.link.Span, trail.BackoffBegin, 0, uint64(d), 0)
}

// endBackoff ends back-off, on its timer or because a packet got through.
// What was refused goes first, in order, then the rest.
func (p *Peer) endBackoff() {
	if !p.link.BackingOff() {
		return
	}
	p.env.Sh.StopTimer(&p.backoffOver.timer)
	p.link.SetBackingOff(false)
	lasted := uint64(p.env.now().Sub(p.backoffOver.since))
	p.env.Counters.BackoffNanos += lasted
	p.env.Trail.Put(p.link.Span, trail.BackoffEnd, 0, lasted, 0)
	p.resendRefused()
	p.sendHandshake()
	p.link.load.owed.send(p)
	p.resume()
	p.serveLine()
}

// resendRefused sends what was refused again, in order, as long as a quarter of the send queue
// is left for other peers; at least one packet goes out when there is room. Its end has the
// next ones sent.
func (p *Peer) resendRefused() {
	q := p.env.Q
	for pke := p.link.load.refused; pke != nil && !p.link.BackingOff(); pke = p.link.load.refused {
		if pke.Parked() && q.Room() <= 0 {
			q.AwaitSlot(&p.slotWait)
			return
		}
		if p.link.load.refused = pke.Next; p.link.load.refused == nil {
			p.refusedTail = nil
		}
		pke.Next = nil
		p.env.Trail.Put(pke.Span, trail.GoesOn, uint8(trail.ForBackoff), 0, 0)
		if p.resend(pke) && q.Room() <= q.Depth()/4 {
			return
		}
	}
}

// onWatchedSuccess: a packet that had met RNR, or that was under way while the
// peer was in back-off, arrived.
func (p *Peer) onWatchedSuccess(pke *device.Pke) {
	p.link.Reached()
	if pke.Resent {
		p.backoff.Reset()
	}
	pke.Watch, pke.Resent = false, false
	p.putOffDone(pke)
	if p.link.BackingOff() {
		p.env.Counters.BackoffsCut++
		p.endBackoff()
	} else {
		p.resendRefused()
	}
	if pke.Owner.IsZero() {
		p.onOwnDone(pke, true)
		return
	}
	p.env.Sh.Tell(pke.Owner, pke.Done())
}

// putOffDone counts a packet that was put off and is over. Later packets would only wait at
// the other side, so they are posted now.
func (p *Peer) putOffDone(pke *device.Pke) {
	if !pke.PutOff {
		return
	}
	pke.PutOff = false
	if p.link.load.putOff--; p.link.load.putOff == 0 && p.link.load.line != nil {
		p.env.Sh.Tell(p.link.Peer, &lineFree)
	}
}

// sendFailed passes a packet that will never arrive to its owner. HANDSHAKE and
// probes have none, and their failure alone is no error (§2.3).
func (p *Peer) sendFailed(pke *device.Pke, s device.Status) {
	pke.Watch, pke.Resent = false, false
	p.putOffDone(pke)
	if pke.Owner.IsZero() {
		p.onOwnDone(pke, false)
		return
	}
	p.env.Sh.Tell(pke.Owner, &SendFailed{Pke: pke, Status: s, Err: p.statusError(s)})
}

// onOwnDone: the peer's own packet is finished.
func (p *Peer) onOwnDone(pke *device.Pke, arrived bool) {
	t := wire.Type(pke.Type())
	p.env.Q.Free(pke)
	p.link.load.flags.clear(probing)
	if t == wire.TypeHandshake && !arrived {
		p.answered = false // the next packet is answered
	}
	if life := p.link.load.life; arrived && life == Failing {
		p.link.live(LifeReached)
	} else if arrived && life == Away {
		p.comeBack()
	}
	p.link.load.owed.done(p, t, arrived)
}

func (p *Peer) statusError(s device.Status) error {
	if p.link.Err != nil && s == device.StatusFlushed {
		return p.link.Err
	}
	n, prov := errno.Of(s, p.link.Handshaken)
	e := &StatusError{Status: s, Errno: n, Provider: prov, Peer: s.Gone()}
	if s == device.StatusUnknownPeer || s == device.StatusMismatch || s == device.StatusQPInternal {
		e.Why = p.env.Q.QP().Why(p.link.AH)
	}
	return e
}

// Backoff computes how long to leave a peer alone that has no receive posted
// (RNR): random at first, then twice as long each time, up to a limit.
// Pure.
type Backoff struct {
	Initial, Max time.Duration
	wait         time.Duration
}

// Next is the next interval.
func (b *Backoff) Next(r *rand.Rand) time.Duration {
	switch {
	case b.wait > 0:
		b.wait = min(2*b.wait, b.Max)
	case b.Initial > 0:
		b.wait = min(b.Initial, b.Max)
	default:
		// As libfabric draws it: 40 us at least, below 120.
		b.wait = min(time.Duration(max(40, r.IntN(120)))*time.Microsecond, b.Max)
	}
	return b.wait
}

// Reset forgets the past: a packet that had met RNR got through.
func (b *Backoff) Reset() { b.wait = 0 }
