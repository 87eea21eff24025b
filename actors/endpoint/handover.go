package endpoint

import "github.com/efactor/efactor/actors/ope"

// A request is made where the shard will handle it: in the endpoint's ring, or, by a goroutine
// that can run the shard itself, in a place that needs no ring (Claim).

// Reserve takes a place in the ring and returns the request there, which is zero but for an ID of
// which the uppermost bit is 0; nil if the ring is full. The caller fills the request in and
// calls Commit, at once: what comes later waits for that. Any goroutine.
func (e *Endpoint) Reserve() *ope.Request {
	r, ticket := e.reqs.Claim()
	if r != nil {
		r.ID = ticket
	}
	return r
}

// Commit submits the request that was reserved with this ID, whatever ID it has by now: the shard has
// it from now on. One of [ope.KindNone] is passed over.
func (e *Endpoint) Commit(ticket uint64) {
	e.reqs.Publish(ticket)
	if e.closing.closed.IsSet() {
		e.closing.refuse()
		return
	}
	e.cfg.Shard.Wake()
}

// Submit copies a request into the ring, and reports whether there was room for
// it. A request without an ID gets one, of which the uppermost bit is 0. Any goroutine.
func (e *Endpoint) Submit(r *ope.Request) bool {
	if !e.Push(r) {
		return false
	}
	e.Pushed()
	return true
}

// Push is Submit for callers that call Pushed after the last of several requests.
func (e *Endpoint) Push(r *ope.Request) bool {
	if r.ID != 0 {
		return e.reqs.Push(r, nil)
	}
	return e.reqs.Push(r, &r.ID)
}

// Pushed has the shard look at the requests.
func (e *Endpoint) Pushed() {
	if e.closing.closed.IsSet() {
		e.closing.refuse()
		return
	}
	e.cfg.Shard.Wake()
}
