package endpoint_test

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// announced is the id in a packet that its sender gives the other side, nil if
// there is none.
func announced(pkt wire.Packet) *uint32 {
	switch h := pkt.(type) {
	case *wire.LongCTSRTM:
		return &h.SendID
	case *wire.LongReadRTM:
		return &h.SendID
	case *wire.RuntReadRTM:
		return &h.SendID
	case *wire.LongCTSRTW:
		return &h.SendID
	case *wire.LongReadRTW:
		return &h.SendID
	case *wire.READRSP:
		return &h.SendID
	case *wire.CTS:
		return &h.RecvID
	case *wire.RTR:
		return &h.RecvID
	case *wire.EOR:
		return &h.RecvID
	case *wire.ReadNACK:
		return &h.RecvID
	case *wire.RTA:
		switch h.Kind {
		case wire.RTAFetch, wire.RTACompare:
			return &h.RecvID
		case wire.RTADCWrite:
			return &h.SendID
		}
	case *wire.EagerRTM:
		if h.DC {
			return &h.SendID
		}
	case *wire.MediumRTM:
		if h.DC {
			return &h.SendID
		}
	case *wire.EagerRTW:
		if h.DC {
			return &h.SendID
		}
	}
	return nil
}

// echoed is the id in a packet that its receiver has given out, nil if there is
// none.
func echoed(pkt wire.Packet) *uint32 {
	switch h := pkt.(type) {
	case *wire.CTS:
		return &h.SendID
	case *wire.CTSData:
		return &h.RecvID
	case *wire.READRSP:
		return &h.RecvID
	case *wire.ATOMRSP:
		return &h.RecvID
	case *wire.EOR:
		return &h.SendID
	case *wire.ReadNACK:
		return &h.SendID
	case *wire.Receipt:
		return &h.TxID
	case *wire.PeerError:
		if h.RefKind == wire.RefOpe {
			return &h.OpID
		}
	}
	return nil
}

// toOurs puts our ids into a packet of the other side.
func (r *replay) toOurs(pkt wire.Packet) {
	id := echoed(pkt)
	if id == nil {
		return
	}
	ours, ok := r.mine[*id]
	require.True(r.t, ok, "%s: id %d was never given out", pkt.Type(), *id)
	*id = ours
}

// learn notes which id of ours the captured one is, and puts it in its place. In an
// operation it stays the same.
func (r *replay) learn(want, got wire.Packet, where string) {
	w, g := announced(want), announced(got)
	if w == nil {
		return
	}
	require.NotNil(r.t, g, where)
	if r.ids[*w] {
		require.Equal(r.t, r.mine[*w], *g, where)
	}
	r.ids[*w], r.mine[*w] = true, *g
	*w = *g
}
