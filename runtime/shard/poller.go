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
	// Wake, tells of new work. false: there is work already.
	Arm() bool
	// FDs returns the descriptors to wait on for reading; asked at every sleep.
	FDs() []int
}

type pollerEntry struct {
	m    *mailbox // panics are this actor's; nil: nobody's
	p    Poller
	gone bool
}

// AddPoller makes p part of every turn, after those added before. A panic in p
// is a failure of the actor as: while as awaits its supervisor p isn't called,
// and when it stops p is removed. A restarted actor finds its pollers still
// there, so it removes them on *actor.Restarting or takes them over.
//
// Called elsewhere than on the shard it waits for the shard.
func (s *Shard) AddPoller(as Ref, p Poller) {
	if !s.OnShard() {
		_ = s.call(func() { s.AddPoller(as, p) })
		return
	}
	s.pollers = append(s.pollers[:len(s.pollers):len(s.pollers)], &pollerEntry{m: as.m, p: p})
}

// RemovePoller ends what AddPoller began.
func (s *Shard) RemovePoller(p Poller) {
	if !s.OnShard() {
		_ = s.call(func() { s.RemovePoller(p) })
		return
	}
	s.dropPollers(func(e *pollerEntry) bool { return e.p == p })
}

// dropPollers replaces the list, since a turn may be walking the old one.
func (s *Shard) dropPollers(which func(*pollerEntry) bool) {
	var left []*pollerEntry
	for _, e := range s.pollers {
		if which(e) {
			e.gone = true
		} else {
			left = append(left, e)
		}
	}
	s.pollers = left
}

func (e *pollerEntry) skip() bool { return e.gone || e.m != nil && e.m.suspended }

func (s *Shard) poll() {
	for s.at < len(s.polling) {
		e := s.polling[s.at]
		s.at++
		if e.skip() {
			continue
		}
		s.cur, s.curMsg = e.m, nil
		s.work += e.p.Poll(s)
	}
}

func (s *Shard) flush() {
	for s.at < len(s.polling) {
		e := s.polling[s.at]
		s.at++
		if e.skip() {
			continue
		}
		s.cur, s.curMsg = e.m, nil
		e.p.Flush(s)
	}
}

// arm readies every poller for sleep. false: one has work, or panicked.
func (s *Shard) arm() (ok bool) {
	defer s.rescue()
	for _, e := range s.pollers {
		if e.skip() {
			continue
		}
		s.cur, s.curMsg = e.m, nil
		if !e.p.Arm() {
			return false
		}
	}
	return true
}

// descriptors lists what to wait on. false: a poller panicked.
func (s *Shard) descriptors(fds []int) (_ []int, ok bool) {
	defer s.rescue()
	for _, e := range s.pollers {
		if e.skip() {
			continue
		}
		s.cur, s.curMsg = e.m, nil
		fds = append(fds, e.p.FDs()...)
	}
	return fds, true
}
