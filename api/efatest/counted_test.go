package efatest_test

import (
	"context"
	"math"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

// Every third endpoint counts the writes with data of 32 bits instead of hearing of each.

// counts is how it is configured; nil: it counts nothing.
func (n *node) counts() *efa.ArrivalsConfig {
	accesses := len(n.run.p.accesses)
	if n.id%3 != 1 || accesses == 0 {
		return nil
	}
	return &efa.ArrivalsConfig{
		Layout:   efa.DataLayout{ValueBits: 28}, // all are of generation 0
		Expected: []efa.Values{{First: firstAccess, Last: uint32(firstAccess + accesses - 1)}},
	}
}

// counted reports whether a write's data is such as its target counts.
func (n *node) counted(a *access) bool {
	return n.ep.Arrivals() != nil && n.run.p.comes(a) <= math.MaxUint32
}

// hearCounted takes what was counted as heard.
func (r *run) hearCounted() {
	for _, n := range r.cast {
		arr, all := n.ep.Arrivals(), 0
		if arr == nil {
			continue
		}
		unexpected := uint64(n.told)
		for i, a := range r.p.accesses {
			count := int(arr.Count(uint32(firstAccess + i)))
			all += count
			if count == 0 {
				continue
			}
			if a.to != n.id || a.kind != write || !a.hasData || !n.counted(a) {
				r.fail("endpoint %d counted %d of %v", n.id, count, a)
			}
			a.told += count
			a.heardData = r.p.comes(a)
			n.told += count
			r.stats["remote write counted"] += uint64(count)
		}
		v := efa.Values{First: firstAccess, Last: uint32(firstAccess + len(r.p.accesses) - 1)}
		if err := arr.WaitRange(context.Background(), v, all); err != nil {
			r.fail("endpoint %d has counted %d writes, and waits for them: %w", n.id, all, err)
		}
		if s := arr.Stats(); s.Late > 0 || s.Early > 0 || s.Unexpected < unexpected || s.Unexpected > unexpected && !n.doomed {
			r.fail("endpoint %d heard of %d writes that it did not expect: %+v", n.id, unexpected, s)
		}
	}
}

// checkData: a write's data came as it was; a device carries 32 bits of it, and writes with
// more go by packets, or, between lists, the part that carries it.
func (r *run) checkData(a *access) {
	direct := a.protocol == ope.DirectWrite
	switch {
	case a.told > 0 && a.heardData != r.p.comes(a), direct && a.data > math.MaxUint32 && a.listed() == 0:
		r.fail("%v by %v came with data %#x, not %#x", a, a.protocol, a.heardData, a.data)
	case a.told > 0 && direct:
		r.stats["direct write with data"]++
	}
}

// wrote reports whether raw is the address of the endpoint that made a write. Of one that has
// sent no packet the device alone says where it is, which knows no connid.
func (r *run) wrote(a *access, raw efa.RawAddr) bool {
	if raw.ConnID() != 0 {
		return r.whois(raw) == a.from
	}
	n := r.cast[a.from]
	at := func(x efa.RawAddr) bool { return x.GID() == raw.GID() && x.QPN() == raw.QPN() }
	return at(n.raw) || at(n.near)
}

// mismatch reports whether an endpoint, of a release that does not know of writes without a
// receive, would write to one that asks its device for that, which its own device refuses.
func (p *plan) mismatch(from, to int) bool {
	return !p.knows(from, wire.FeatureUnsolicitedWrite) && p.at(to).dev.UnsolicitedWrite
}

// dropUnsolicited takes writes without a receive from hosts with an endpoint of a release that
// has never asked its device for that, and does not say so in HANDSHAKE either.
func (p *plan) dropUnsolicited() {
	for _, np := range p.nodes {
		if np.era != nil && !np.era.Has(wire.FeatureUnsolicitedWrite) {
			p.hosts[np.host].dev.UnsolicitedWrite = false
		}
	}
}
