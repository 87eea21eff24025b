package eratest

import (
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/wire"
)

// wordsFor returns the features that introduced a packet type. LONGREAD and EOR are
// as old as the first release, which had RDMA read.
func wordsFor(t wire.Type) wire.Features {
	switch {
	case t.IsDC(), t == wire.TypeReceipt:
		return wire.MakeFeatures(wire.FeatureDeliveryComplete)
	case t == wire.TypeRuntReadMsgRTM, t == wire.TypeRuntReadTagRTM:
		return wire.MakeFeatures(wire.FeatureRunt)
	case t == wire.TypeReadNACK:
		return wire.MakeFeatures(wire.FeatureReadNACK)
	case t == wire.TypePeerError:
		return wire.MakeFeatures(wire.FeaturePeerError)
	default:
		return wire.Features{}
	}
}

// understands reports whether a release knows packets of type t: an unknown one raises
// an error in the event queue, or ends the process if there is none.
func understands(p *era.Profile, t wire.Type) bool {
	if !t.Known() {
		return false
	}
	need := wordsFor(t)
	return p.Knows(need) == need
}

// uses is the set of features that the receiver of a packet must have advertised
// (§4). LONGREAD and RUNTREAD make it read; a RECEIPT it has requested itself.
func uses(t wire.Type) wire.Features {
	if t == wire.TypeReceipt {
		return wire.Features{}
	}
	f := wordsFor(t)
	if readBased(t) {
		f.Set(wire.FeatureRDMARead)
	}
	return f
}

// readBased reports whether EOR or READ_NACK answers t (§4.1, §4.5).
func readBased(t wire.Type) bool {
	switch t {
	case wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM, wire.TypeLongReadRTW,
		wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM:
		return true
	default:
		return false
	}
}

// longCTS reports whether CTS answers t, which holds the first bytes of a longer
// transfer (§3.2).
func longCTS(t wire.Type) bool {
	switch t {
	case wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM, wire.TypeDCLongCTSMsgRTM, wire.TypeDCLongCTSTagRTM,
		wire.TypeLongCTSRTW, wire.TypeDCLongCTSRTW:
		return true
	default:
		return false
	}
}
