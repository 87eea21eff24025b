package shard

// Poller is a source of work that the shard looks at in every turn: a device
// queue, a connection. Its methods are called on the shard.
type Poller interface {
	// Poll does up to one batch of work and returns how much it did.
	Poll(s *Shard) int
	// Flush is called once at the end of a turn in which anything happened, here
	// or elsewhere on the shard: time for doorbells and for publishing completions. A
	// poller that is a Flusher says itself when.
	Flush(s *Shard)
	// Arm is called before the shard sleeps: from now on a descriptor of FDs, or
	// a call of Wake, announces new work. It returns false if there is work already.
	Arm() bool
	// FDs returns the descriptors to wait on for reading; asked at every sleep.
	FDs() []int
}

// Flusher is a Poller of which few turns need the Flush.
type Flusher interface {
	// FlushDue is asked once: Flush is called only if it is true where the answer points to.
	FlushDue() *bool
}

// always is for pollers that are no Flusher.
var always = true

// pollers holds the pollers of a shard. Owner only.
type pollers struct {
	list    []*Polled
	walk    []*Polled // the list as the present phase of the turn found it
	changed bool      // list is not what it was when walk was set
	at      int       // index in walk of the next; a panic leaves it behind the culprit
}

// Polled is a poller's place on its shard.
type Polled struct {
	m    *mailbox // the actor whose failure a panic is, nil for none
	p    Poller
	off  *bool // says whether p is not to be called: m is suspended, or gone
	due  *bool // says whether Flush is to be called
	gone bool
}

// AddPoller makes p part of every turn, after those added before. A panic in p
// is a failure of the actor as: while as awaits its supervisor p is not called,
// and when it stops p is removed. A restarted actor finds its pollers still
// there, so it removes them on *actor.Restarting or takes them over.
//
// Called elsewhere than on the shard it waits for the shard.
func (s *Shard) AddPoller(as Ref, p Poller) *Polled {
	e := &Polled{m: as.m, p: p, due: &always}
	if f, ok := p.(Flusher); ok {
		e.due = f.FlushDue()
	}
	if e.off = &e.gone; e.m != nil {
		e.off = &e.m.suspended
	}
	if s.OnShard() {
		s.pollers.add(e)
	} else {
		_ = s.call(func() { s.pollers.add(e) })
	}
	return e
}

// RemovePoller ends what AddPoller began.
func (s *Shard) RemovePoller(p Poller) {
	if !s.OnShard() {
		_ = s.call(func() { s.RemovePoller(p) })
		return
	}
	s.pollers.remove(func(e *Polled) bool { return e.p == p })
}

// add replaces the list, since a turn may be walking the old one.
func (p *pollers) add(e *Polled) {
	p.list, p.changed = append(p.list[:len(p.list):len(p.list)], e), true
}

// remove replaces the list, since a turn may be walking the old one.
func (p *pollers) remove(which func(*Polled) bool) {
	var left []*Polled
	for _, e := range p.list {
		if which(e) {
			e.gone, e.off = true, &e.gone
		} else {
			left = append(left, e)
		}
	}
	p.list, p.changed = left, true
}

// begin starts a walk over the list.
func (p *pollers) begin() {
	p.at = 0
	if p.changed {
		p.walk, p.changed = p.list, false
	}
}

// next takes a step of the walk: it returns nil at the end.
func (p *pollers) next() *Polled {
	for p.at < len(p.walk) {
		e := p.walk[p.at]
		p.at++
		if !*e.off {
			return e
		}
	}
	return nil
}

// rescue, deferred, makes a panic outside of a turn the failure of the poller's actor.
func (p *pollers) rescue(s *Shard) {
	if r := recover(); r != nil {
		s.failed(r, 0)
	}
}

// arm readies every poller for sleep. It reports false if one has work, or panicked.
func (p *pollers) arm(s *Shard) (ok bool) {
	defer p.rescue(s)
	for _, e := range p.list {
		if *e.off {
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
		if *e.off {
			continue
		}
		s.delivery.stack.set(e.m)
		fds = append(fds, e.p.FDs()...)
	}
	return fds, true
}
