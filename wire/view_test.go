package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// connIDOf and rawAddrOf are what a receiver asks of a packet before it reads it.
func connIDOf(b []byte) (uint32, bool) {
	v, err := Open(b)
	if err != nil {
		return 0, false
	}
	return v.ConnID()
}

func rawAddrOf(b []byte) (RawAddr, bool) {
	v, err := Open(b)
	if err != nil {
		return RawAddr{}, false
	}
	return v.RawAddr()
}

// requirePeeksAgree checks that what is found without a full decode is what the
// decoded packet says.
func requirePeeksAgree(t *testing.T, pkt Packet, b []byte) {
	t.Helper()
	var wantRaw RawAddr
	o := optionsOf(pkt)
	hasRaw := o != nil && o.HasRawAddr
	if hasRaw {
		wantRaw = o.RawAddr
	}
	v, err := Open(b)
	require.NoError(t, err)
	require.Equal(t, Base{Type: Type(b[0]), Version: b[1], Flags: le.Uint16(b[2:])}, v.Base)
	raw, ok := v.RawAddr()
	require.Equal(t, hasRaw, ok)
	require.Equal(t, wantRaw, raw)

	id, ok := v.MsgID()
	require.Equal(t, pkt.Type().HasMsgID(), ok)
	if f := reflect.ValueOf(pkt).Elem().FieldByName("MsgID"); ok {
		require.EqualValues(t, f.Uint(), id)
		short, err := Open(b[:HeaderLen:HeaderLen])
		require.NoError(t, err)
		_, ok = short.MsgID()
		require.False(t, ok)
	}

	var e Eager
	n, err := v.Eager(&e)
	p, isEager := pkt.(*EagerRTM)
	if !isEager {
		require.ErrorIs(t, err, ErrType)
		return
	}
	require.NoError(t, err)
	require.Equal(t, Eager{p.Tag, p.CQData, p.MsgID, p.SendID, p.HasCQData, p.Tagged}, e)
	end, err := new(EagerRTM).Read(&v)
	require.NoError(t, err)
	require.Equal(t, end, n)
}

func TestPeeks(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		requirePeeksAgree(t, c.pkt, b)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = rawAddrOf(b) }))

		// A truncated packet gives the same or nothing.
		for i := range b {
			if raw, ok := rawAddrOf(b[:i:i]); ok {
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
		_, ok := rawAddrOf(b)
		require.False(t, ok)
	}
	// A list that is too long, and a size word that lies.
	tooMany := (&EagerRTW{Options: Options{HasRawAddr: true, RawAddr: testRaw}}).Append(nil)
	le.PutUint32(tooMany[4:], 1<<31)
	_, ok := rawAddrOf(tooMany)
	require.False(t, ok)
	_, ok = rawAddrOf(rawAddrPacket(31, testRaw[:]))
	require.False(t, ok)
}

// TestReadGoesByTheView: another process may change a packet that lies in shared memory
// after Open has looked at it. What Open has checked stays as it was, and whatever else
// the packet says now, Read stays within it.
func TestReadGoesByTheView(t *testing.T) {
	eachCase(t, func(t *testing.T, c *codecCase, b []byte) {
		connid, has := connIDOf(b)
		for _, fill := range []byte{0, 1, 0xff} {
			changed := bytes.Clone(b)
			v, err := Open(changed)
			require.NoError(t, err)
			for i := range changed {
				changed[i] = fill
			}
			got := packets[infos[v.Type].family]()
			n, err := got.Read(&v)
			require.Equal(t, c.pkt.Type(), v.Type)
			if err != nil { // read_iov_count is Read's own
				require.ErrorIs(t, err, ErrCount)
				continue
			}
			require.LessOrEqual(t, n, len(b))
			require.Equal(t, c.pkt.Type(), got.Type())
			gotConnID, gotHas := connIDOfDecoded(got)
			require.Equal(t, has, gotHas)
			require.Equal(t, connid, gotConnID)
		}
	})
	_, err := new(CTS).Read(new(View))
	require.ErrorIs(t, err, ErrType)
}

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
			if got, ok := connIDOf(b[:i:i]); ok && !c.whole() {
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
