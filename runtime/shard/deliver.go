package shard

// maxMessages bounds the messages of one turn, and maxInbox the entries that it takes
// from the inbox, so that no part of the turn starves another.
const (
	maxInbox    = 64
	maxMessages = 256
)

// delivery holds the messages under way on the shard and hands them to their actors:
// system messages first, then what a resumed actor was owed, then all others in the
// order in which they were sent. Owner only.
type delivery struct {
	ran       int // messages that run has handled in this turn
	delivered uint64
	ring      ring // user messages, in the order in which they were sent
	sys       ring // protoactor's system messages
	replay    ring // messages held back for actors that go on now
	stack     callStack
	inbox     *inbox // the consumer's end of Shard.inbox
	faults    *faults
}

// empty reports whether no message is on the rings.
func (d *delivery) empty() bool { return d.ring.len()|d.sys.len()|d.replay.len() == 0 }

// tell files a Ref lane message on the ring.
func (d *delivery) tell(to Ref, m Msg) {
	if to.m == nil {
		d.faults.cancel(m)
		return
	}
	d.ring.push(to.m, m, laneRef)
}

// drain moves up to limit entries from the inbox to the rings and returns how many.
func (d *delivery) drain(limit int) (n int) {
	for n < limit {
		e, ok := d.inbox.pop()
		if !ok {
			break
		}
		n++
		switch e.lane {
		case laneCall:
			d.stack.set(nil)
			e.msg.(func())()
		case laneSystem:
			d.sys.push(e.m, e.msg, e.lane)
		case laneRef, lanePID:
			d.ring.push(e.m, e.msg, e.lane)
		}
	}
	return n
}

// run handles messages until there are none or the turn has had its share, and returns how
// many the turn handled. After a panic it goes on counting.
func (d *delivery) run() int {
	for d.ran < maxMessages {
		var (
			m   *mailbox
			msg any
			l   lane
		)
		switch {
		case d.sys.len()|d.replay.len() != 0:
			d.ran++
			if d.sys.len() != 0 {
				m, msg, _ = d.sys.pop()
				d.stack.on[0] = m
				d.system(m, msg)
				continue
			}
			m, msg, l = d.replay.pop()
		case d.ring.len() != 0:
			d.ran++
			m, msg, l = d.ring.pop()
		default:
			// Without a cheap getg the shard's own messages are in its inbox.
			if !fastG && d.drain(maxInbox) > 0 {
				continue
			}
			return d.counted()
		}
		d.stack.on[0] = m
		if l == laneRef && m.bars.fast() {
			m.msg = msg
			m.actor.Receive((*refContext)(m))
			m.msg = nil
			continue
		}
		d.slow(m, msg, l)
	}
	return d.counted()
}

// counted ends the count of a turn's messages.
func (d *delivery) counted() (n int) {
	n, d.ran = d.ran, 0
	d.delivered += uint64(n)
	return n
}

// slow delivers a message that cannot go straight to Receive.
func (d *delivery) slow(m *mailbox, msg any, l lane) {
	switch {
	case m.stopped:
		d.faults.cancel(msg)
	case m.suspended:
		x := m.extras()
		x.held = append(x.held, entry{m, msg, l})
	default:
		d.stack.msg = msg
		m.invoker.InvokeUserMessage(msg)
		d.stack.msg = nil
		m.rearmed()
	}
}

// system delivers one of protoactor's own messages.
func (d *delivery) system(m *mailbox, msg any) {
	d.stack.msg = msg
	m.invokeSystem(msg)
	d.stack.msg = nil
	m.refresh()
	if m.stopping && !m.stopped {
		m.checkStopped()
	}
}

// cancelAll cancels what is left on the rings, when all actors are gone.
func (d *delivery) cancelAll() {
	for _, r := range []*ring{&d.sys, &d.replay, &d.ring} {
		for r.len() > 0 {
			if _, msg, l := r.pop(); l != laneSystem {
				d.faults.cancel(msg)
			}
		}
	}
}

// trim gives the memory of a burst back. Called when the shard goes to sleep.
func (d *delivery) trim() {
	d.ring.trim(keepRing)
	d.replay.trim(keepRing)
}

// Delivered returns how many messages the shard has handed to its actors. Shard only.
func (s *Shard) Delivered() uint64 { return s.delivery.delivered }
