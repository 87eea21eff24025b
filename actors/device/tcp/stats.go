package tcp

import "sync/atomic"

// Stats counts what happened on a device's connections.
type Stats struct {
	Accepted   uint64 // connections of others
	Refused    uint64 // of them, not taken: wrong place, mtu, version...
	Strangers  uint64 // of them, that did not begin as they must
	Impostors  uint64 // connections that did not vouch for the address they stated
	Crowded    uint64 // times there were Config.MaxConn
	Broken     uint64 // sessions that ended without a farewell
	Violations uint64 // sessions that ended because the other side said what cannot be
	Gone       uint64 // queue pairs that were found to be no more
}

// Counter is what a Device of Open offers beside its methods.
type Counter interface {
	Stats() Stats
}

type counters struct {
	accepted, refused, strangers, impostors, crowded, broken, violations, gone atomic.Uint64
}

func (c *counters) read() Stats {
	return Stats{
		Accepted: c.accepted.Load(), Refused: c.refused.Load(), Strangers: c.strangers.Load(),
		Impostors: c.impostors.Load(), Crowded: c.crowded.Load(), Broken: c.broken.Load(),
		Violations: c.violations.Load(), Gone: c.gone.Load(),
	}
}
