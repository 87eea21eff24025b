package tcp

import "sync/atomic"

// Stats counts the events on a device's connections.
type Stats struct {
	Accepted   uint64 // connections of others
	Refused    uint64 // of them, refused: wrong place, mtu, version...
	Strangers  uint64 // of them, without a valid preamble
	Impostors  uint64 // connections that did not vouch for the address they stated
	Crowded    uint64 // times there were too many connections
	Untrusted  uint64 // connections, dialed or accepted, whose TLS handshake failed
	OtherUsers uint64 // connections whose other side was not known to be our user
	Guesses    uint64 // keys that others named and that are not, nor lately were, any here
	SentAway   uint64 // peers whose sessions ended because of guesses
	Broken     uint64 // sessions that ended without a bye
	Violations uint64 // sessions that ended because of an impossible frame
	Gone       uint64 // queue pairs that were found to be gone
}

// Counter is implemented by the devices of Open beside device.Device.
type Counter interface {
	Stats() Stats
}

type counters struct {
	accepted, refused, strangers, impostors, crowded, untrusted, otherUsers, guesses, sentAway, broken, violations, gone atomic.Uint64
}

func (c *counters) read() Stats {
	return Stats{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(), Strangers: c.strangers.Load(),
		Impostors: c.impostors.Load(), Crowded: c.crowded.Load(), Untrusted: c.untrusted.Load(),
		OtherUsers: c.otherUsers.Load(), Guesses: c.guesses.Load(), SentAway: c.sentAway.Load(), Broken: c.broken.Load(),
		Violations: c.violations.Load(), Gone: c.gone.Load(),
	}
}
