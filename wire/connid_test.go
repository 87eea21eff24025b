package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// connIDOfDecoded takes the connid from the decoded packet: [View.ConnID] must find
// the same one.
func connIDOfDecoded(p Packet) (uint32, bool) {
	switch p := p.(type) {
	case *CTS:
		return p.ConnID, p.HasConnID
	case *CTSData:
		return p.ConnID, p.HasConnID
	case *READRSP:
		return p.ConnID, p.HasConnID
	case *EOR:
		return p.ConnID, p.HasConnID
	case *ATOMRSP:
		return p.ConnID, p.HasConnID
	case *Handshake:
		return p.ConnID, p.HasConnID
	case *Receipt:
		return p.ConnID, p.HasConnID
	case *ReadNACK:
		return p.ConnID, p.HasConnID
	case *PeerError:
		return p.ConnID, p.HasConnID
	default:
		switch o := optionsOf(p); {
		case o.HasConnID:
			return o.ConnID, true
		case o.HasRawAddr:
			return o.RawAddr.ConnID(), true
		}
		return 0, false
	}
}

// optionsOf returns the optional headers of a REQ packet.
func optionsOf(p Packet) *Options {
	switch p := p.(type) {
	case *EagerRTM:
		return &p.Options
	case *MediumRTM:
		return &p.Options
	case *LongCTSRTM:
		return &p.Options
	case *LongReadRTM:
		return &p.Options
	case *RuntReadRTM:
		return &p.Options
	case *EagerRTW:
		return &p.Options
	case *LongCTSRTW:
		return &p.Options
	case *LongReadRTW:
		return &p.Options
	case *RTR:
		return &p.Options
	case *RTA:
		return &p.Options
	default:
		return nil
	}
}

func TestConnID(t *testing.T) {
	found := 0
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		want, wantOK := connIDOfDecoded(c.pkt)
		got, ok := connIDOf(b)
		require.Equal(t, wantOK, ok)
		require.Equal(t, want, got)
		if ok {
			found++
		}
		// A truncated packet gives the same connid or none.
		for i := range b {
			if got, ok := connIDOf(b[:i:i]); ok {
				require.Equal(t, want, got, "%d bytes", i)
			}
		}
	})
	require.Greater(t, found, 20)

	for _, b := range [][]byte{nil, {3}, {3, 3, 0, 0x80}, {1, 4, 0, 0x80}, {131, 4, 1, 0x80}} {
		_, ok := connIDOf(b)
		require.False(t, ok)
	}
}
