package era

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/wire"
)

// captured calls f with the profile of every captured packet's release.
func captured(t *testing.T, f func(e *Profile, s *golden.Scenario, p *golden.Packet, pkt wire.Packet, n int)) {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	for i := range scenarios {
		s := &scenarios[i]
		e, ok := ByName(s.Libfabric)
		require.True(t, ok)
		s.Each(func(p *golden.Packet, _ string, b []byte) {
			pkt, n, err := wire.Decode(b)
			require.NoError(t, err)
			f(&e, s, p, pkt, len(b)-n)
		})
	}
}

// scenario finds a captured scenario.
func scenario(t *testing.T, release, name string) *golden.Scenario {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	i := slices.IndexFunc(scenarios, func(s golden.Scenario) bool { return s.Libfabric == release && s.Name == name })
	require.GreaterOrEqual(t, i, 0, "%s %s", release, name)
	return &scenarios[i]
}

// TestGoldenHandshake: the captured releases' HANDSHAKE has the fields and features
// that their profiles say.
func TestGoldenHandshake(t *testing.T) {
	union := map[string]wire.Features{}
	hosts := map[string]int{}
	captured(t, func(e *Profile, s *golden.Scenario, _ *golden.Packet, pkt wire.Packet, _ int) {
		h, ok := pkt.(*wire.Handshake)
		if !ok {
			return
		}
		require.Equal(t, !e.NoConnID, h.HasConnID)
		require.Equal(t, !e.NoDeviceVersion, h.HasDeviceVersion)
		require.Equal(t, e.P2P, h.HasP2P)
		require.Equal(t, !e.NoHostID && s.Env["EFASHIM_HOST_ID"] != "", h.HasHostID, "%s %s", s.Libfabric, s.Name)
		if h.HasHostID {
			hosts[s.Libfabric]++
		}
		require.Equal(t, h.Features, e.Knows(h.Features), "%s %s", s.Libfabric, s.Name)
		all := union[s.Libfabric]
		for i := range all {
			all[i] |= h.Features[i]
		}
		union[s.Libfabric] = all
	})
	// 2.3.1 complies with a request for constant headers, but does not make it.
	for release, silent := range map[string][]wire.Feature{"1.17.0": nil, "2.3.1": {wire.FeatureConstantHeader}} {
		e, _ := ByName(release)
		want := e.Features
		for _, f := range silent {
			want.Clear(f)
		}
		require.Equal(t, want, union[release], release)
	}
	require.Equal(t, map[string]int{"2.3.1": 2}, hosts)
}

// TestGoldenForms: connid, EOR, raw address, CQ data and CTSDATA are as the profiles
// say.
func TestGoldenForms(t *testing.T) {
	largest := map[string]uint64{}
	seen := map[string]int{}
	captured(t, func(e *Profile, s *golden.Scenario, p *golden.Packet, pkt wire.Packet, _ int) {
		if typ := pkt.Type(); !typ.IsREQ() && typ != wire.TypeCTSData && typ != wire.TypeHandshake {
			require.Equal(t, e.NoConnID, le16(p.Hex[2:])&wire.FlagConnID == 0, "%s %s", s.Name, p.Type)
		}
		if o := requestOptions(pkt); o != nil {
			if o.HasRawAddr {
				seen["raw address"]++
				require.Equal(t, e.ShortAddr, o.ShortAddr)
			}
			if o.HasCQData && p.CQData != nil && *p.CQData>>32 != 0 {
				seen["CQ data"]++
				want := *p.CQData
				if e.CQData32 && pkt.Type().IsTagged() {
					seen["CQ data cut"]++
					want = uint64(uint32(want))
				}
				require.Equal(t, want, o.CQData, "%s %s %s", s.Libfabric, s.Name, p.Type)
			}
		}
		switch q := pkt.(type) {
		case *wire.EOR:
			seen["EOR"]++
			require.Equal(t, e.ShortEOR, q.Short)
		case *wire.CTSData:
			largest[s.Libfabric] = max(largest[s.Libfabric], q.SegLength)
		}
	})
	for _, what := range []string{"raw address", "CQ data", "CQ data cut", "EOR"} {
		require.Greater(t, seen[what], 10, what)
	}
	for _, release := range []string{"1.17.0", "2.3.1"} {
		e, _ := ByName(release)
		header := wire.CTSDataConnIDLen
		if e.DataHeader != 0 {
			header = e.DataHeader
		}
		require.EqualValues(t, golden.MTU-header, largest[release], release)
	}
}

// requestOptions returns a request's optional headers, nil of other packets.
func requestOptions(p wire.Packet) *wire.Options {
	f := reflect.ValueOf(p).Elem().FieldByName("Options")
	if !f.IsValid() {
		return nil
	}
	return f.Addr().Interface().(*wire.Options)
}

func le16(b []byte) uint16 { return uint16(b[0]) | uint16(b[1])<<8 }

// TestGoldenRounding cuts every captured message of even parts as its release did.
func TestGoldenRounding(t *testing.T) {
	type cut struct {
		release, scenario, op, from string
		msgID                       uint32
		runt                        uint64
	}
	var order []cut
	parts := map[cut][]uint64{}
	captured(t, func(_ *Profile, s *golden.Scenario, p *golden.Packet, pkt wire.Packet, n int) {
		c := cut{release: s.Libfabric, scenario: s.Name, op: p.Op, from: p.From}
		switch q := pkt.(type) {
		case *wire.MediumRTM:
			c.msgID, c.runt = q.MsgID, q.MsgLength
		case *wire.RuntReadRTM:
			c.msgID, c.runt = q.MsgID, q.RuntLength
		default:
			return
		}
		if parts[c] == nil {
			order = append(order, c)
		}
		parts[c] = append(parts[c], uint64(n))
	})
	different := map[string]int{}
	for _, c := range order {
		n := uint64(len(parts[c]))
		e, _ := ByName(c.release)
		even := (c.runt + n - 1) / n
		up := (even + 7) / 8 * 8
		down := even / 8 * 8
		size := map[settings.Rounding]uint64{settings.RoundDown: down, settings.RoundUp: up}[e.Rounding]
		for i, got := range parts[c] {
			want := size
			if i == int(n)-1 {
				want = c.runt - (n-1)*size
			}
			require.Equal(t, want, got, "%+v: part %d of %v", c, i, parts[c])
		}
		if up != down {
			different[c.release]++
		}
	}
	require.Greater(t, different["1.17.0"], 10)
	require.Greater(t, different["2.3.1"], 10)
}

// TestGoldenHabits: what waits for what, and what comes first.
func TestGoldenHabits(t *testing.T) {
	for _, release := range []string{"1.17.0", "2.3.1"} {
		e, _ := ByName(release)
		first := func(name string) string { return scenario(t, release, name).Packets[0].Type }

		require.Equal(t, e.ReadWaits, first("rdma/longread-first") == "EAGER_RTW", release)
		write := scenario(t, release, "first/write:100").Packets[0]
		var rtw wire.EagerRTW
		v, err := wire.Open(write.Hex)
		require.NoError(t, err)
		_, err = rtw.Read(&v)
		require.NoError(t, err)
		require.Equal(t, e.RMANoWait, rtw.RMAIOVCount > 0, release)

		// 40000 bytes would have fitted a medium message.
		read := scenario(t, release, "rdma/longread")
		require.NotContains(t, read.Env, "FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE")
		require.Equal(t, !e.MediumFirst, slices.ContainsFunc(read.Packets, func(p golden.Packet) bool {
			return p.Type == "LONGREAD_MSGRTM"
		}), release)

		// A window of two packets for a read of 60000 bytes.
		credits := scenario(t, release, "connid/longcts-credits")
		i := slices.IndexFunc(credits.Packets, func(p golden.Packet) bool { return p.Type == "LONGCTS_RTR" })
		var rtr wire.RTR
		v, err = wire.Open(credits.Packets[i].Hex)
		require.NoError(t, err)
		_, err = rtr.Read(&v)
		require.NoError(t, err)
		require.EqualValues(t, 60000, rtr.MsgLength)
		require.Equal(t, e.RTRWhole, rtr.RecvLength == 60000, release)
	}
}
