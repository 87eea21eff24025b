package eratest

import "github.com/efactor/efactor/wire"

// connID: a connid header of its own is found only by an endpoint that asked for it
// (§4.4).
func (j *Judge) connID(b wire.Base) *Fault {
	if b.Flags&wire.FlagConnID == 0 || !b.Type.IsREQ() && b.Type != wire.TypeCTSData {
		return nil
	}
	if !j.profile.Has(wire.FeatureConnIDHeader) {
		return bad(RuleConnID, "the era takes it for data")
	}
	return j.use(wire.MakeFeatures(wire.FeatureConnIDHeader), RuleConnID)
}

// use returns the fault of using a feature that the endpoint did not advertise.
// Until its HANDSHAKE is sent, uses are remembered for announced.
func (j *Judge) use(f wire.Features, r Rule) *Fault {
	if !j.known {
		for i := range f {
			j.early[i] |= f[i]
		}
		return nil
	}
	return lacks(f, j.says, r)
}

func lacks(used, said wire.Features, r Rule) *Fault {
	for f := wire.Feature(0); f < wire.Feature(64*len(used)); f++ {
		if used.Has(f) && !said.Has(f) {
			return bad(r, "it did not advertise %v", f)
		}
	}
	return nil
}

// announced: the endpoint's HANDSHAKE says what it supports and requests.
func (j *Judge) announced(f wire.Features) *Fault {
	if j.known {
		return nil
	}
	j.known, j.says = true, f
	if f.Has(wire.FeatureUserRecvQP) && j.message {
		return bad(RuleUserQP, "a message came before this")
	}
	return lacks(j.early, f, RuleFeature)
}

// request applies the rules for single packets, which hold in any state. n is the
// length of its headers.
func (j *Judge) request(s *side, p wire.Packet, v *view, n int) *Fault {
	if f := j.use(uses(v.typ), RuleFeature); f != nil {
		return f
	}
	if v.said != v.n {
		return bad(RuleLengths, "seg_length %d, but %d bytes of data", v.said, v.n)
	}
	if !v.typ.IsREQ() {
		return nil
	}
	if v.typ.IsRTM() {
		j.message = true
		if j.known && j.says.Has(wire.FeatureUserRecvQP) {
			return bad(RuleUserQP, "it takes messages without headers only")
		}
	}
	o := v.opts
	switch {
	case o.HasRawAddr && n != len(p.Append(nil)):
		return bad(RuleRawAddr, "headers of %d bytes, which should be %d", n, len(p.Append(nil)))
	case !o.HasRawAddr && !s.greeted:
		return bad(RuleIntroduction, "no raw address, but HANDSHAKE has not gone out")
	case !o.HasRawAddr && j.says.Has(wire.FeatureConstantHeader):
		return bad(RuleConstant, "no raw address")
	}
	if f := j.sums(v); f != nil {
		return f
	}
	if a, ok := p.(*wire.RTA); ok {
		return j.atomic(a, v.n)
	}
	return nil
}

// sums checks lengths that a packet says several times (§3.3, §4.1, §4.5).
func (j *Judge) sums(v *view) *Fault {
	switch rma, read := sum(v.rma), sum(v.read); {
	case (v.typ.IsRTW() || v.typ.IsRTR()) && rma != v.total:
		return bad(RuleLengths, "%d bytes for %d of memory", v.total, rma)
	case len(v.read) > 0 && read != v.total:
		return bad(RuleLengths, "%d bytes of %d to be read", v.total, read)
	}
	first := min(v.total, uint64(j.mtu-wire.READRSPLen)) // of the bytes of a read
	switch {
	case readBased(v.typ) && len(v.read) == 0:
		return bad(RuleLengths, "nothing to be read")
	case readBased(v.typ) && v.runt > v.total:
		return bad(RuleLengths, "runt_length %d of %d", v.runt, v.total)
	case longCTS(v.typ) && (v.n >= v.total || v.nack && v.n > 0):
		return bad(RuleLengths, "%d bytes of data of %d", v.n, v.total)
	case v.short && v.total > first:
		return bad(RuleFirstWindow, "%d bytes do not fit a READRSP", v.total)
	case v.typ.IsRTR() && !v.short && v.grant < first:
		return bad(RuleFirstWindow, "recv_length %d, but READRSP takes %d", v.grant, first)
	}
	return nil
}

// atomic checks an RTA (§3.3).
func (j *Judge) atomic(a *wire.RTA, n uint64) *Fault {
	work := sum(a.RMAIOV[:a.RMAIOVCount])
	switch {
	case a.RMAIOVCount == 0, a.RMAIOVCount > 1 && a.Kind == wire.RTACompare && j.profile.OneCompareIOV:
		return bad(RuleCount, "%d", a.RMAIOVCount)
	case !a.Op.Accepts(a.Kind, a.Datatype):
		return bad(RuleAtomic, "%v of %v", a.Op, a.Datatype)
	case work%uint64(a.Datatype.Size()) != 0:
		return bad(RuleLengths, "%d bytes of elements of %d", work, a.Datatype.Size())
	}
	want := work
	switch {
	case a.Op == wire.OpRead && n == 0:
		return nil
	case a.Kind == wire.RTACompare:
		want = 2 * work
	}
	if n != want {
		return bad(RuleLengths, "%d bytes of operands for %d of memory", n, work)
	}
	return nil
}
