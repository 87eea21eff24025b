package wire

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

var handshakeCases = []codecCase{
	{
		name: "release_1.10",
		pkt:  &Handshake{Features: MakeFeatures(FeatureRDMARead)},
		wire: `
		09 04 00 00             # type=HANDSHAKE flags=0
		04 00 00 00             # nextra_p3
		01 00 00 00 00 00 00 00 # extra_info`,
	},
	{
		name: "all",
		pkt: &Handshake{
			Features:         MakeFeatures(FeatureDeliveryComplete, FeatureConnIDHeader, FeatureRunt, FeatureReadNACK, FeatureUnsolicitedWrite),
			HasConnID:        true,
			ConnID:           0x154ec1c8,
			HasHostID:        true,
			HostID:           0x0123456789abcdef,
			HasDeviceVersion: true,
			DeviceVersion:    0xefa1,
			HasUserRecvQP:    true,
			UserRecvQP:       UserRecvQP{QPN: 2819, QKey: 0x6e283cf7},
			HasP2P:           true,
			P2PSupported:     true,
		},
		wire: `
		09 04 0f 80             # flags=CONNID_HDR|hmem|user_recv_qp|device_version|host_id
		04 00 00 00             # nextra_p3
		5a 01 00 00 00 00 00 00 # extra_info
		c8 c1 4e 15             # connid
		00 00 00 00             # padding
		ef cd ab 89 67 45 23 01 # host_id
		a1 ef 00 00             # device_version
		00 00 00 00             # reserved
		03 0b 00 00             # user_recv_qp: qpn
		f7 3c 28 6e             # user_recv_qp: qkey
		01                      # p2p_supported
		00 00 00 00 00 00 00    # reserved`,
	},
	{
		name: "host_id_alone", // the specification's example: no space is left for connid
		pkt:  &Handshake{HasHostID: true, HostID: 5},
		wire: `
		09 04 01 00             # flags=HANDSHAKE_HOST_ID_HDR
		04 00 00 00             # nextra_p3
		00 00 00 00 00 00 00 00 # extra_info
		05 00 00 00 00 00 00 00 # host_id`,
	},
	{
		name: "p2p_not_supported",
		pkt:  &Handshake{HasP2P: true},
		wire: `
		09 04 08 00             # flags=hmem
		04 00 00 00             # nextra_p3
		00 00 00 00 00 00 00 00 # extra_info
		00                      # p2p_supported
		00 00 00 00 00 00 00    # reserved`,
	},
	{
		name: "two_words",
		pkt:  &Handshake{Features: Features{1, 0x8000000000000000}, HasConnID: true, ConnID: 6},
		wire: `
		09 04 00 80             # flags=CONNID_HDR
		05 00 00 00             # nextra_p3
		01 00 00 00 00 00 00 00 # extra_info[0]
		00 00 00 00 00 00 00 80 # extra_info[1]
		06 00 00 00             # connid
		00 00 00 00             # padding`,
	},
	{
		name: "four_words",
		pkt:  &Handshake{Features: MakeFeatures(255)},
		wire: `
		09 04 00 00             # flags=0
		07 00 00 00             # nextra_p3
		00 00 00 00 00 00 00 00 # extra_info[0]
		00 00 00 00 00 00 00 00 # extra_info[1]
		00 00 00 00 00 00 00 00 # extra_info[2]
		00 00 00 00 00 00 00 80 # extra_info[3]`,
	},
}

// TestHandshakeSubsets has every subset of the optional fields: an absent one
// takes no space, and the others stay in order.
func TestHandshakeSubsets(t *testing.T) {
	for subset := range 1 << 5 {
		want := Handshake{
			Features:         Features{0x15a},
			HasConnID:        subset&1 != 0,
			HasHostID:        subset&2 != 0,
			HasDeviceVersion: subset&4 != 0,
			HasUserRecvQP:    subset&8 != 0,
			HasP2P:           subset&16 != 0,
		}
		fields := 0
		if want.HasConnID {
			want.ConnID = 0x11111111
			fields++
		}
		if want.HasHostID {
			want.HostID = 0x2222222222222222
			fields++
		}
		if want.HasDeviceVersion {
			want.DeviceVersion = 0x33333333
			fields++
		}
		if want.HasUserRecvQP {
			want.UserRecvQP = UserRecvQP{0x44444444, 0x55555555}
			fields++
		}
		if want.HasP2P {
			want.P2PSupported = true
			fields++
		}
		b := want.Append(nil)
		require.Len(t, b, 16+8*fields)

		var got Handshake
		n, err := parse(&got, b)
		require.NoError(t, err)
		require.Equal(t, len(b), n)
		require.Equal(t, want, got)
		for i := range b {
			requireParseFails(t, &Handshake{}, b[:i:i], ErrShort)
		}
		connid, ok := connIDOf(b)
		require.Equal(t, want.HasConnID, ok)
		require.Equal(t, want.ConnID, connid)
	}
}

// TestHandshakeManyWords has more words of extra_info than Features keeps: they
// are skipped, up to what the datagram holds.
func TestHandshakeManyWords(t *testing.T) {
	for _, words := range []int{0, 1, 4, 5, 100, 1000} {
		t.Run(fmt.Sprint(words), func(t *testing.T) {
			b := appendBase(nil, TypeHandshake, FlagConnID)
			b = le.AppendUint32(b, uint32(words+3))
			want := Handshake{HasConnID: true, ConnID: 77}
			for i := range words {
				b = le.AppendUint64(b, uint64(i)+1)
				if i < len(want.Features) {
					want.Features[i] = uint64(i) + 1
				}
			}
			b = le.AppendUint64(b, 77)

			var got Handshake
			n, err := parse(&got, b)
			require.NoError(t, err)
			require.Equal(t, len(b), n)
			require.Equal(t, want, got)
			connid, ok := connIDOf(b)
			require.True(t, ok)
			require.EqualValues(t, 77, connid)
		})
	}
}

func TestHandshakeLyingCount(t *testing.T) {
	good := (&Handshake{HasConnID: true, ConnID: 1}).Append(nil)
	for _, nextra := range []uint32{6, 100, 0x10000003, 0x20000003, 0x20000004, 0x80000003, 0xffffffff} {
		b := bytes.Clone(good)
		le.PutUint32(b[4:], nextra)
		requireParseFails(t, &Handshake{}, b, ErrShort)
		_, ok := connIDOf(b)
		require.False(t, ok)
	}
	for nextra := range uint32(3) {
		b := bytes.Clone(good)
		le.PutUint32(b[4:], nextra)
		requireParseFails(t, &Handshake{}, b, ErrLength)
		_, ok := connIDOf(b)
		require.False(t, ok)
	}
}

func TestFeatures(t *testing.T) {
	var s Features
	for _, f := range []Feature{0, 9, 63, 64, 127, 200, 255} {
		require.False(t, s.Has(f))
		s.Set(f)
		require.True(t, s.Has(f))
	}
	require.Equal(t, Features{1<<0 | 1<<9 | 1<<63, 1<<0 | 1<<63, 0, 1<<8 | 1<<63}, s)
	s.Clear(200)
	require.False(t, s.Has(200))
	require.True(t, s.Has(255))
	require.False(t, s.Has(256), "beyond the set")
	require.False(t, s.Has(^Feature(0)), "beyond the set")

	require.Equal(t, "rdma_read", FeatureRDMARead.String())
	require.Equal(t, "peer_error", FeaturePeerError.String())
	require.Equal(t, "10", Feature(10).String())
}
