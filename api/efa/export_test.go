package efa

import "runtime"

// QueueAll makes every message between actors of a domain with manual progress go
// through the rings of its shards, see [shard.Shard.QueueAll].
func (d *Domain) QueueAll() {
	for _, s := range d.shards {
		for !s.Claim() {
			runtime.Gosched()
		}
		s.QueueAll()
		s.Release()
	}
}

// BreakOff is PostRecvs that has taken the slots of n receives and posts none of them. Between
// the two it calls f.
func (e *Endpoint) BreakOff(n int, f func()) {
	b := batch{e: e, to: e.recvTo, places: &e.rx, slots: e.recvTo.q.reserve(n)}
	f()
	_, _ = b.end() // there is no error
}

// Behind reports whether the endpoint waits for room to tell of peers' writes.
func (e *Endpoint) Behind() bool { return e.recvTo.behind.Load() }

// Waiting is how many wait for the counter.
func (c *Counter) Waiting() int { return int(c.waiting.Load()) }

// Waiting is how many wait for arrivals.
func (a *Arrivals) Waiting() int {
	if list := a.waits.Load(); list != nil {
		return len(*list)
	}
	return 0
}

// Arrive counts a write with data, as the shard does.
func (a *Arrivals) Arrive(data uint64) bool { return a.count(data) }

// NewArrivals makes those of an endpoint that was never enabled.
func NewArrivals(cfg *ArrivalsConfig) (*Arrivals, error) {
	e := new(Endpoint)
	e.cfg.Arrivals = cfg
	return newArrivals(cfg, e), cfg.check()
}

// Used is how many places of the queue are taken, also by completions not yet to be seen.
func (q *Queue) Used() int { return int(q.used.Load()) }

// NextState is how many calls of Next wait for memory, how many receives there are, and how
// many bytes are lent.
type NextState struct{ ForMemory, Receives, Lent int64 }

// StateOfNext looks at an endpoint.
func StateOfNext(ep *Endpoint) NextState {
	m := &ep.inbox.mem
	return NextState{m.waiting.Load(), ep.rx.used.Load(), m.used.Load()}
}

// Delivered is how many messages between actors have gone through the rings of the domain's
// shards. The domain's progress is manual.
func (d *Domain) Delivered() (n uint64) {
	for _, s := range d.shards {
		for !s.Claim() {
			runtime.Gosched()
		}
		n += s.Delivered()
		s.Release()
	}
	return n
}
