package shard

// Poller is a source of work that the shard looks at in every turn: a device
// queue, a connection. Its methods are called on the shard.
type Poller interface {
	// Poll does up to one batch of work and returns how much it did.
	Poll(s *Shard) int
	// Flush is called once at the end of a turn in which anything happened, here
	// or elsewhere on the shard: time for doorbells and for publishing completions.
	Flush(s *Shard)
	// Arm is called before the shard sleeps: from now on a descriptor of FDs, or
	// a call of Wake, announces new work. It returns false if there is work already.
	Arm() bool
	// FDs returns the descriptors to wait on for reading; asked at every sleep.
	FDs() []int
}

// pollers holds the pollers of a shard. Owner only.
type pollers struct {
	list []*pollerEntry
	walk []*pollerEntry // the list as the present phase of the turn found it
	at   int            // index in walk of the next; a panic leaves it behind the culprit
}

type pollerEntry struct {
	m    *mailbox // the actor whose failure a panic is, nil for none
	p    Poller
	gone bool
}

// AddPoller makes p part of every turn, after those added before. A panic in p
// is a failure of the actor as: while as awaits its supervisor p is not called,
// and when it stops p is removed. A restarted actor finds its pollers still
// there, so it removes them on *actor.Restarting or takes them over.
//
// Called elsewhere than on the shard it waits for the shard.
func (s *Shard) AddPoller(as Ref, p Poller) {
	if !s.OnShard() {
		_ = s.call(func() { s.AddPoller(as, p) })
		return
	}
	s.pollers.add(&pollerEntry{m: as.m, p: p})
}

// RemovePoller ends what AddPoller began.
func (s *Shard) RemovePoller(p Poller) {
	if !s.OnShard() {
		_ = s.call(func() { s.RemovePoller(p) })
		return
	}
	s.pollers.remove(func(e *pollerEntry) bool { return e.p == p })
}

func (e *pollerEntry) skip() bool { return e.gone || e.m != nil && e.m.suspended }

// add replaces the list, since a turn may be walking the old one.
func (p *pollers) add(e *pollerEntry) { p.list = append(p.list[:len(p.list):len(p.list)], e) }

// remove replaces the list, since a turn may be walking the old one.
func (p *pollers) remove(which func(*pollerEntry) bool) {
	var left []*pollerEntry
	for _, e := range p.list {
		if which(e) {
			e.gone = true
		} else {
			left = append(left, e)
		}
	}
	p.list = left
}

// begin starts a walk over the list.
func (p *pollers) begin() { p.walk, p.at = p.list, 0 }

// poll does the rest of the walk.
func (p *pollers) poll(s *Shard) {
	for p.at < len(p.walk) {
		e := p.walk[p.at]
		p.at++
		if e.skip() {
			continue
		}
		s.delivery.stack.set(e.m)
		s.sched.work += e.p.Poll(s)
	}
}

// flush does the rest of the walk.
func (p *pollers) flush(s *Shard) {
	for p.at < len(p.walk) {
		e := p.walk[p.at]
		p.at++
		if e.skip() {
			continue
		}
		s.delivery.stack.set(e.m)
		e.p.Flush(s)
	}
}

// rescue, deferred, makes a panic outside of a turn the failure of the poller's actor.
func (p *pollers) rescue(s *Shard) {
	if r := recover(); r != nil {
		s.failed(r)
		s.delivery.stack.depth = 0
	}
}

// arm readies every poller for sleep. It reports false if one has work, or panicked.
func (p *pollers) arm(s *Shard) (ok bool) {
	defer p.rescue(s)
	for _, e := range p.list {
		if e.skip() {
			continue
		}
		s.delivery.stack.set(e.m)
		if !e.p.Arm() {
			return false
		}
	}
	return true
}

// descriptors appends what to wait on to fds. It reports false if a poller panicked.
func (p *pollers) descriptors(s *Shard, fds []int) (_ []int, ok bool) {
	defer p.rescue(s)
	for _, e := range p.list {
		if e.skip() {
			continue
		}
		s.delivery.stack.set(e.m)
		fds = append(fds, e.p.FDs()...)
	}
	return fds, true
}
