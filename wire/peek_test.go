package wire

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// msgIDOfDecoded takes the msg_id from the decoded packet.
func msgIDOfDecoded(p Packet) (uint32, bool) {
	switch p := p.(type) {
	case *EagerRTM:
		return p.MsgID, true
	case *MediumRTM:
		return p.MsgID, true
	case *LongCTSRTM:
		return p.MsgID, true
	case *LongReadRTM:
		return p.MsgID, true
	case *RuntReadRTM:
		return p.MsgID, true
	case *RTA:
		return p.MsgID, true
	default:
		return 0, false
	}
}

// requirePeeksAgree checks that what is found without a full decode is what the
// decoded packet says.
func requirePeeksAgree(t *testing.T, pkt Packet, b []byte) {
	t.Helper()
	want, has := msgIDOfDecoded(pkt)
	got, err := MsgIDOf(b)
	if has {
		require.NoError(t, err)
		require.Equal(t, want, got)
	} else {
		require.ErrorIs(t, err, ErrType)
	}

	var wantRaw RawAddr
	o := optionsOf(pkt)
	hasRaw := o != nil && o.HasRawAddr
	if hasRaw {
		wantRaw = o.RawAddr
	}
	raw, ok := RawAddrOf(b)
	require.Equal(t, hasRaw, ok)
	require.Equal(t, wantRaw, raw)
}

func TestPeeks(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		requirePeeksAgree(t, c.pkt, b)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = MsgIDOf(b) }))
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = RawAddrOf(b) }))

		// A truncated packet gives the same or nothing.
		want, _ := msgIDOfDecoded(c.pkt)
		for i := range b {
			if got, err := MsgIDOf(b[:i:i]); err == nil {
				require.Equal(t, want, got)
				require.GreaterOrEqual(t, i, int(infos[b[0]].headerLen))
			}
			if raw, ok := RawAddrOf(b[:i:i]); ok {
				require.Equal(t, optionsOf(c.pkt).RawAddr, raw)
			}
		}
	})
	goldenPackets(t, func(_ *golden.Scenario, p *golden.Packet) {
		pkt, _, err := Decode(p.Hex)
		require.NoError(t, err)
		requirePeeksAgree(t, pkt, p.Hex)
	})

	for _, b := range [][]byte{nil, {64}, {64, 3, 1, 0, 0, 0, 0, 0}, {142, 4, 1, 0, 0, 0, 0, 0}} {
		_, err := MsgIDOf(b)
		require.Error(t, err)
		_, ok := RawAddrOf(b)
		require.False(t, ok)
	}
	// A list that is too long, and a size word that lies.
	tooMany := (&EagerRTW{Options: Options{HasRawAddr: true, RawAddr: testRaw}}).Append(nil)
	le.PutUint32(tooMany[4:], 1<<31)
	_, ok := RawAddrOf(tooMany)
	require.False(t, ok)
	_, ok = RawAddrOf(rawAddrPacket(31, testRaw[:]))
	require.False(t, ok)
}
