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
