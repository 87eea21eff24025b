package eratest

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/wire"
)

// wireDevice is a device with one queue pair, which keeps what is posted and has one slot.
type wireDevice struct {
	device.Device
	device.QP
	posted []device.SendWR
	slot   []byte
	status device.Status
}

func (d *wireDevice) Info() device.Info                               { return device.Info{MTU: mtu} }
func (d *wireDevice) OpenQP(device.QPConfig) (device.QP, error)       { return d, nil }
func (d *wireDevice) RecvBytes(int) []byte                            { return d.slot }
func (d *wireDevice) PostSend(wr *device.SendWR) error                { d.posted = append(d.posted, *wr); return nil }
func (d *wireDevice) CreateAHOn(uint8, device.GID) (device.AH, error) { return 7, nil }
func (d *wireDevice) Close() error                                    { return nil }

func (d *wireDevice) Poll(c []device.Completion) int {
	c[0] = device.Completion{Op: device.OpRecv, Status: d.status, Len: len(d.slot)}
	return 1
}

func open(t *testing.T, d *wireDevice, p *era.Profile) device.QP {
	qp, err := Device(d, p).OpenQP(device.QPConfig{})
	require.NoError(t, err)
	return qp
}

// TestDevice: what an endpoint sends, and what the device gets of it.
func TestDevice(t *testing.T) {
	addr := wire.RawAddr{1, 2, 3}
	options := wire.Options{HasRawAddr: true, RawAddr: addr, HasCQData: true, CQData: 5<<32 | 9}
	short, cut := options, options
	short.ShortAddr, cut.CQData = true, 9
	room := uint64(mtu - wire.CTSDataLen)
	asks := func(total uint64, credits uint32) *wire.LongCTSRTM {
		return &wire.LongCTSRTM{MsgLength: total, CreditRequest: credits}
	}
	handshake := wire.Handshake{
		Features: wire.MakeFeatures(wire.FeatureRunt), HasConnID: true, ConnID: 1, HasHostID: true, HostID: 2, HasDeviceVersion: true, DeviceVersion: 3,
	}
	greet := func(f func(*wire.Handshake)) *wire.Handshake {
		h := handshake
		f(&h)
		return &h
	}
	for _, c := range []struct {
		name      string
		profile   era.Profile
		sent, got wire.Packet
	}{
		{"connid of HANDSHAKE", era.Profile{NoConnID: true}, &handshake, greet(func(h *wire.Handshake) { h.HasConnID, h.ConnID = false, 0 })},
		{"host_id", era.Profile{NoHostID: true}, &handshake, greet(func(h *wire.Handshake) { h.HasHostID, h.HostID = false, 0 })},
		{"device_version", era.Profile{NoDeviceVersion: true}, &handshake, greet(func(h *wire.Handshake) { h.HasDeviceVersion, h.DeviceVersion = false, 0 })},
		{"p2p", era.Profile{P2P: true}, &handshake, greet(func(h *wire.Handshake) { h.HasP2P, h.P2PSupported = true, true })},
		{"CTS", era.Profile{NoConnID: true}, &wire.CTS{HasConnID: true, ConnID: 1, SendID: 2, RecvID: 3, RecvLength: 4}, &wire.CTS{SendID: 2, RecvID: 3, RecvLength: 4}},
		{"READRSP", era.Profile{NoConnID: true}, &wire.READRSP{HasConnID: true, ConnID: 1, SendID: 2, RecvID: 3, SegLength: 4}, &wire.READRSP{SendID: 2, RecvID: 3, SegLength: 4}},
		{"ATOMRSP", era.Profile{NoConnID: true}, &wire.ATOMRSP{HasConnID: true, ConnID: 1, RecvID: 3, SegLength: 4}, &wire.ATOMRSP{RecvID: 3, SegLength: 4}},
		{"RECEIPT", era.Profile{NoConnID: true}, &wire.Receipt{HasConnID: true, ConnID: 1, TxID: 3, MsgID: 4}, &wire.Receipt{TxID: 3, MsgID: 4}},
		{"READ_NACK", era.Profile{NoConnID: true}, &wire.ReadNACK{HasConnID: true, ConnID: 1, SendID: 2, RecvID: 3}, &wire.ReadNACK{SendID: 2, RecvID: 3}},
		{"PEER_ERROR", era.Profile{NoConnID: true}, &wire.PeerError{HasConnID: true, ConnID: 1, OpID: 2, ProvErrno: 3}, &wire.PeerError{OpID: 2, ProvErrno: 3}},
		{"EOR", era.Profile{NoConnID: true}, &wire.EOR{HasConnID: true, ConnID: 1, SendID: 2, RecvID: 3}, &wire.EOR{SendID: 2, RecvID: 3}},
		{"short EOR", era.Profile{ShortEOR: true}, &wire.EOR{HasConnID: true, ConnID: 1, SendID: 2, RecvID: 3}, &wire.EOR{SendID: 2, RecvID: 3, Short: true}},
		{"short address", era.Profile{ShortAddr: true}, &wire.EagerRTM{Options: options, MsgID: 3}, &wire.EagerRTM{Options: short, MsgID: 3}},
		{"no address to be short", era.Profile{ShortAddr: true}, &wire.EagerRTM{MsgID: 3}, &wire.EagerRTM{MsgID: 3}},
		{"CQ data", era.Profile{CQData32: true}, &wire.MediumRTM{Options: options, Tagged: true, Tag: 1}, &wire.MediumRTM{Options: cut, Tagged: true, Tag: 1}},
		{"CQ data without a tag", era.Profile{CQData32: true}, &wire.MediumRTM{Options: options}, &wire.MediumRTM{Options: options}},
		{"CQ data of a write, cut", era.Profile{WriteData32: true}, &wire.EagerRTW{Options: options, RMAIOVCount: 1}, &wire.EagerRTW{Options: cut, RMAIOVCount: 1}},
		{"CQ data of a message, whole", era.Profile{WriteData32: true}, &wire.MediumRTM{Options: options}, &wire.MediumRTM{Options: options}},
		{"CQ data of a write", era.Profile{CQData32: true}, &wire.EagerRTW{Options: options, RMAIOVCount: 1}, &wire.EagerRTW{Options: options, RMAIOVCount: 1}},
		{"credits, a few", era.Profile{CreditsAsked: true}, asks(1, 32), asks(1, 32)},
		{"credits", era.Profile{CreditsAsked: true}, asks(100*room, 32), asks(100*room, 100)},
		{"credits, a byte more", era.Profile{CreditsAsked: true}, asks(100*room+1, 32), asks(100*room+1, 101)},
		{"credits, as many as there are", era.Profile{CreditsAsked: true}, asks(math.MaxUint64, 32), asks(math.MaxUint64, 1<<31)},
		{
			"credits of a write",
			era.Profile{CreditsAsked: true},
			&wire.LongCTSRTW{RMAIOVCount: 1, MsgLength: 100 * room, CreditRequest: 32}, &wire.LongCTSRTW{RMAIOVCount: 1, MsgLength: 100 * room, CreditRequest: 100},
		},
		{"CTSDATA", era.All[0], &wire.CTSData{RecvID: 1, SegLength: 2}, &wire.CTSData{RecvID: 1, SegLength: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &wireDevice{}
			qp := open(t, d, &c.profile)
			payload := []byte("payload")
			wr := device.SendWR{Header: c.sent.Append(make([]byte, 0, device.MaxHeader)), Payload: payload, Prompt: true}
			place := &wr.Header[0]
			for range 2 { // again, after RNR
				require.NoError(t, qp.PostSend(&wr))
				got := d.posted[len(d.posted)-1]
				require.Equal(t, c.got.Append(nil), got.Header)
				require.Same(t, place, &got.Header[0], "the header is where it was")
				require.Equal(t, payload, got.Payload)
				require.True(t, got.Prompt)
			}
			// What follows the header goes with it, and other requests are left alone.
			sent := c.sent.Append(nil)
			if typ := c.sent.Type(); typ != wire.TypeEOR && typ != wire.TypePeerError { // of which the length says what they are
				wr = device.SendWR{Header: append(bytes.Clone(sent), "tail"...)}
				require.NoError(t, qp.PostSend(&wr))
				require.Equal(t, append(c.got.Append(nil), "tail"...), wr.Header)
			}
			wr = device.SendWR{Kind: device.WRWrite, Header: sent}
			require.NoError(t, qp.PostSend(&wr))
			require.Equal(t, c.sent.Append(nil), wr.Header)
			wr = device.SendWR{Payload: sent}
			require.NoError(t, qp.PostSend(&wr))
			require.Empty(t, wr.Header)
			require.Equal(t, c.sent.Append(nil), wr.Payload)
		})
	}
}

// TestDeviceRewritesAll: each field of a profile that is about bytes has a row in TestDevice, or
// this fails when one is added.
func TestDeviceRewritesAll(t *testing.T) {
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[era.Profile]()) {
		if len(f.Index) == 1 && f.Type.Kind() == reflect.Bool {
			fields = append(fields, f.Name)
		}
	}
	require.Equal(t, []string{
		"ShortAddr", "NoConnID", "ShortEOR", "NoHostID", "NoDeviceVersion", "P2P", "CQData32", "WriteData32", "CreditsAsked",
		"AbortsAhead", "OneHandshake", "NoNACKWrite", "OneCompareIOV", // Judge's
	}, fields)
}

// TestDeviceGolden: the bytes of no captured packet change, neither without a profile nor with
// that of its own release: it has that form already.
func TestDeviceGolden(t *testing.T) {
	scenarios, err := golden.LoadAll()
	require.NoError(t, err)
	packets := 0
	for i := range scenarios {
		s := &scenarios[i]
		size := s.MTU
		if size == 0 {
			size = golden.MTU
		}
		s.Each(func(p *golden.Packet, _ string, b []byte) {
			own, ok := era.Of(s.Release(p.From))
			require.True(t, ok, s.Libfabric)
			_, n, err := wire.Decode(b)
			require.NoError(t, err)
			for _, profile := range []era.Profile{{}, own} {
				r := rewrite{profile: profile, mtu: size}
				require.Equal(t, b[:n], r.sent(bytes.Clone(b[:n])), "%s %s %s", s.Libfabric, s.Name, p.Type)
			}
			packets++
		})
	}
	require.Greater(t, packets, 1500)
}

// TestDeviceHandshake: an endpoint sees the features alone that its release knows. Everything else
// is as it came, and so are other packets.
func TestDeviceHandshake(t *testing.T) {
	all := wire.MakeFeatures(0, 1, 2, 9, 200)
	h := wire.Handshake{Features: all, HasConnID: true, ConnID: 1, HasUserRecvQP: true, UserRecvQP: wire.UserRecvQP{QPN: 2, QKey: 3}}
	for i := range era.All {
		p := &era.All[i]
		d := &wireDevice{slot: h.Append(nil)}
		c := make([]device.Completion, 1)
		qp := open(t, d, p)
		d.status = device.StatusFlushed
		require.Equal(t, 1, qp.Poll(c))
		require.Equal(t, h.Append(nil), d.slot, "nothing came")
		d.status = device.StatusOK
		require.Equal(t, 1, qp.Poll(c))
		var got wire.Handshake
		v, err := wire.Open(d.slot)
		require.NoError(t, err)
		_, err = got.Read(&v)
		require.NoError(t, err)
		want := h
		want.Features = p.Knows(all)
		require.Equal(t, want, got, p.Name)
		for _, other := range [][]byte{{}, d.slot[:wire.HandshakeLen], (&wire.EOR{}).Append(nil), {0xff}} {
			d.slot = bytes.Clone(other)
			require.Equal(t, 1, qp.Poll(c))
			require.Equal(t, other, d.slot)
		}
	}
}

// TestDevicePaths: a queue pair over several devices is one still, one of a single device is not.
func TestDevicePaths(t *testing.T) {
	type multipath interface {
		CreateAHOn(path uint8, gid device.GID) (device.AH, error)
	}
	qp, is := open(t, &wireDevice{}, &era.All[0]).(multipath)
	require.True(t, is)
	ah, err := qp.CreateAHOn(1, device.GID{})
	require.NoError(t, err)
	require.EqualValues(t, 7, ah)
	_, is = any(&oldQP{}).(multipath)
	require.False(t, is)
}

// TestTalkLike: by its name, one of the releases at which something changed.
func TestTalkLike(t *testing.T) {
	k := settings.Knobs{HostID: 5}
	require.ErrorContains(t, TalkLike(&k, "1.9"), `"1.9"`)
	require.Error(t, TalkLike(&k, ""))
	require.Nil(t, k.Device)
	require.NoError(t, TalkLike(&k, "1.13"))
	require.EqualValues(t, 5, k.HostID)
	p, _ := era.ByName("1.13")
	require.Equal(t, p.Habits, k.Habits)
	d, is := k.Device(&wireDevice{}).(*oldDevice)
	require.True(t, is)
	require.Equal(t, p, d.rewrite.profile)

	var f settings.InForce
	Adopt(&f, &p)
	require.Equal(t, p.Habits, f.Habits)
	require.IsType(t, d, f.Device(&wireDevice{}))
}
