package remote

import "time"

// PingEvery has a process ask the others so often whether they know it.
func (c Config) PingEvery(d time.Duration) Config {
	c.pingEvery = d
	return c
}

// Places are how many names and links there are, and how many peers are in the address vector.
func (r *Remote) Places() (names, links, peers int) {
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	return len(r.names.names), len(r.names.links), r.ep.AddressVector().Len()
}

// Window is how much of messages may be on its way, and FrameCost what a frame counts more than its body.
const (
	Window    = window
	FrameCost = frameCost
)

// Waiting is how many bytes of messages of sessions have come and wait.
func (r *Remote) Waiting() (n int) {
	for _, l := range r.names.all() {
		l.lane.mu.Lock()
		n += l.lane.bytes
		l.lane.mu.Unlock()
	}
	return n
}
