package shard

import "slices"

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
	first   *Polled // those of the list to be called, as the present phase of the turn found it
	at      *Polled // the one after that which is being called, where a walk goes on after a panic
	changed bool    // first is not what begin would make of the list
}

// Polled is a poller's place on its shard.
type Polled struct {
	after *Polled  // the next to be called; only pollers.gather changes it
	m     *mailbox // the actor whose failure a panic is, nil for none
	p     Poller
	due   *bool // says whether Flush is to be called
	off   bool  // p is not to be called: m is suspended, or p was removed
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

// add replaces the list, since a walk over it may be under way.
func (p *pollers) add(e *Polled) {
	p.list = append(p.list[:len(p.list):len(p.list)], e)
	p.refresh()
}

// remove replaces the list, since a walk over it may be under way. What is removed is not
// called again.
func (p *pollers) remove(which func(*Polled) bool) {
	var left []*Polled
	for _, e := range p.list {
		if which(e) {
			e.off = true
		} else {
			left = append(left, e)
		}
	}
	p.list = left
	p.refresh()
}

// refresh notes which pollers are to be called. It follows each change of the list and of
// mailbox.suspended, both of which are rare.
func (p *pollers) refresh() {
	for _, e := range p.list {
		e.off = e.m != nil && e.m.suspended
	}
	p.changed = true
}

// begin returns the first to be called in a walk.
func (p *pollers) begin() *Polled {
	if p.changed {
		p.gather()
	}
	return p.first
}

// gather links those that are to be called. No walk is under way. It is not inlined: few turns
// call it.
//
//go:noinline
func (p *pollers) gather() {
	p.first, p.changed = nil, false
	for _, e := range slices.Backward(p.list) {
		if !e.off {
			e.after, p.first = p.first, e
		}
	}
}

// rescue, deferred, makes a panic outside of a turn the failure of the poller's actor.
func (p *pollers) rescue(s *Shard) {
	s.rescue(recover())
}

// arm readies every poller for sleep. It reports false if one has work, or panicked.
func (p *pollers) arm(s *Shard) (ok bool) {
	defer p.rescue(s)
	for _, e := range p.list {
		if e.off {
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
		if e.off {
			continue
		}
		s.delivery.stack.set(e.m)
		fds = append(fds, e.p.FDs()...)
	}
	return fds, true
}
