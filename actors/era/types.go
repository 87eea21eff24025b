package era

import "github.com/efactor/efactor/wire"

// wordsFor are the features that came with a packet type. LONGREAD and EOR are as
// old as the first release, which had RDMA read.
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

// uses is the set of features that the receiver of a packet must have advertised
// (§4). LONGREAD and RUNTREAD make it read; a RECEIPT is what it asked for.
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

// readBased tells whether EOR or READ_NACK answers t (§4.1, §4.5).
func readBased(t wire.Type) bool {
	switch t {
	case wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM, wire.TypeLongReadRTW,
		wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM:
		return true
	default:
		return false
	}
}

// longCTS tells whether CTS answers t, which has the first bytes of more (§3.2).
func longCTS(t wire.Type) bool {
	switch t {
	case wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM, wire.TypeDCLongCTSMsgRTM, wire.TypeDCLongCTSTagRTM,
		wire.TypeLongCTSRTW, wire.TypeDCLongCTSRTW:
		return true
	default:
		return false
	}
}
