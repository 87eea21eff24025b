package tap_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/internal/devicetest"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// ticks is a clock that moves by 5 s at every look, to pass 32 bits of ns.
type ticks struct{ now clock.Time }

func (c *ticks) Now() clock.Time {
	c.now += 5_000_000_000
	return c.now
}

// able devices have RDMA.
var able = sim.DeviceConfig{RDMARead: true, RDMAWrite: true}

// pair opens a queue pair each on two tapped devices, with a handle of the second.
func pair(t *testing.T, sink tap.Sink) (a, b device.QP, toB device.AH) {
	t.Helper()
	f, err := sim.New(sim.Config{InOrder: true})
	require.NoError(t, err)
	var qps []device.QP
	for i := range 2 {
		dev, err := f.OpenDevice(able)
		require.NoError(t, err)
		qp, err := tap.Wrap(dev, sink).OpenQP(device.QPConfig{SQDepth: 2, QPN: uint16(10 + i), QKey: uint32(100 + i)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, qp.Close()) })
		qp.PostRecv([]int32{0, 1, 2, 3})
		qps = append(qps, qp)
	}
	toB, err = qps[0].CreateAH(sim.IndexGID(2))
	require.NoError(t, err)
	return qps[0], qps[1], toB
}

func TestRecords(t *testing.T) {
	rec := tap.NewRecorder(&ticks{})
	a, b, toB := pair(t, rec)
	self, other := wire.MakeRawAddr(sim.IndexGID(1), 10, 100), wire.MakeRawAddr(sim.IndexGID(2), 11, 101)
	var c [4]device.Completion

	wr := device.SendWR{AH: toB, QPN: 11, QKey: 101, Header: []byte("head"), Payload: []byte("body")}
	require.NoError(t, a.PostSend(&wr))
	wr.Header = nil
	require.NoError(t, a.PostSend(&wr))
	require.ErrorIs(t, a.PostSend(&wr), device.ErrQueueFull)
	require.Equal(t, []tap.Record{
		{Time: 5e9, Out: true, From: self, To: other, Packet: []byte("headbody"), Len: 8},
		{Time: 10e9, Out: true, From: self, To: other, Packet: []byte("body"), Len: 4},
	}, rec.Take(), "what was refused is not recorded")

	require.Equal(t, 1, b.Poll(c[:1]))
	_, err := b.CreateAH(sim.IndexGID(1))
	require.NoError(t, err)
	require.Equal(t, 1, b.Poll(c[:]))
	require.Equal(t, 2, a.Poll(c[:]))
	from := wire.MakeRawAddr(sim.IndexGID(1), 10, 0)
	require.Equal(t, []tap.Record{
		{Time: 15e9, From: from, To: other, Packet: []byte("headbody"), Len: 8},
		{Time: 20e9, From: from, To: other, Packet: []byte("body"), Len: 4},
	}, rec.Take(), "with and without address handle")
}

// TestResent: what a device sends again by itself is recorded as such, on the path that it takes.
func TestResent(t *testing.T) {
	f, err := sim.New(sim.Config{Virtual: true, InOrder: true})
	require.NoError(t, err)
	open := func() device.Device {
		var nets []device.Device
		for net := range 2 {
			d, err := f.OpenDevice(sim.DeviceConfig{Net: net})
			require.NoError(t, err)
			nets = append(nets, d)
		}
		d, err := multi.Open(nets...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	rec := tap.NewRecorder(f.Clock())
	a, err := tap.Wrap(open(), rec).OpenQP(device.QPConfig{QKey: 100, RNRRetry: 2})
	require.NoError(t, err)
	b, err := open().OpenQP(device.QPConfig{QKey: 101})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()); require.NoError(t, a.Close()) }()
	ours, theirs := a.Paths()[1], b.Paths()[1]
	to, err := a.CreateAH(theirs.Info.GID)
	require.NoError(t, err)

	require.NoError(t, a.PostSend(&device.SendWR{AH: to, QPN: theirs.QPN, QKey: 101, Header: []byte("head"), Payload: []byte("body")}))
	var c [1]device.Completion
	for n := 0; a.Poll(c[:]) == 0; n++ {
		require.Less(t, n, 1000)
		if !f.Step() {
			f.AdvanceTo(f.Clock().Now().Add(20 * time.Microsecond))
		}
	}
	require.Equal(t, device.StatusRNR, c[0].Status)
	want := tap.Record{
		Out: true, From: wire.MakeRawAddr(ours.Info.GID, ours.QPN, 100), To: wire.MakeRawAddr(theirs.Info.GID, theirs.QPN, 101),
		Packet: []byte("headbody"), Len: 8,
	}
	got := rec.Take()
	require.Len(t, got, 3)
	for i, r := range got {
		want.Again, want.Own, want.Time = i > 0, i > 0, r.Time
		require.Equal(t, want, r)
	}
}

// block is a pcapng block as the test's reader understands it.
type block struct {
	kind uint32
	body []byte
}

func readBlocks(t *testing.T, b []byte) []block {
	t.Helper()
	var blocks []block
	for len(b) > 0 {
		require.GreaterOrEqual(t, len(b), 12)
		kind, size := le(b), le(b[4:])
		require.Zero(t, size%4)
		require.LessOrEqual(t, int(size), len(b))
		require.Equal(t, size, le(b[size-4:]), "length at the end")
		blocks = append(blocks, block{kind, b[8 : size-4]})
		b = b[size:]
	}
	return blocks
}

func le(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// options reads code, length and value up to the end mark.
func options(t *testing.T, b []byte) map[uint16]string {
	t.Helper()
	opts := map[uint16]string{}
	for {
		code, size := uint16(le(b)), int(le(b)>>16)
		if code == 0 {
			require.Len(t, b, 4)
			return opts
		}
		opts[code] = string(b[4 : 4+size])
		b = b[4+(size+3)/4*4:]
	}
}

func TestPcapng(t *testing.T) {
	var file bytes.Buffer
	p, err := tap.NewPcapng(&file, &ticks{})
	require.NoError(t, err)
	a, b, toB := pair(t, p)
	for _, packet := range []string{"12345", ""} {
		require.NoError(t, a.PostSend(&device.SendWR{AH: toB, QPN: 11, QKey: 101, Header: []byte(packet), Again: packet == ""}))
		var c [1]device.Completion
		require.Equal(t, 1, b.Poll(c[:]))
	}
	require.NoError(t, p.Err())

	blocks := readBlocks(t, file.Bytes())
	require.Len(t, blocks, 2+4)
	require.Equal(t, uint32(0x0a0d0d0a), blocks[0].kind)
	require.Equal(t, uint32(0x1a2b3c4d), le(blocks[0].body))
	require.Equal(t, uint32(1), le(blocks[0].body[4:]), "version 1.0")
	require.Equal(t, map[uint16]string{4: "efactor"}, options(t, blocks[0].body[16:]))
	require.Equal(t, uint32(1), blocks[1].kind)
	require.Equal(t, uint32(147), le(blocks[1].body))
	require.Equal(t, map[uint16]string{2: "efa", 9: "\x09"}, options(t, blocks[1].body[8:]))

	self, other := wire.MakeRawAddr(sim.IndexGID(1), 10, 100), wire.MakeRawAddr(sim.IndexGID(2), 11, 101)
	from := wire.MakeRawAddr(sim.IndexGID(1), 10, 0)
	for i, want := range []struct {
		from, to wire.RawAddr
		packet   string
		flags    string
	}{
		{self, other, "12345", "\x02\x00\x00\x00"},
		{from, other, "12345", "\x01\x00\x00\x00"},
		{self, other, "", "\x02\x00\x00\x00"},
		{from, other, "", "\x01\x00\x00\x00"},
	} {
		epb := blocks[2+i]
		require.Equal(t, uint32(6), epb.kind)
		require.Zero(t, le(epb.body))
		require.Equal(t, uint64(i+1)*5e9, uint64(le(epb.body[4:]))<<32|uint64(le(epb.body[8:])))
		size := int(le(epb.body[12:]))
		require.Equal(t, 64+len(want.packet), size)
		require.Equal(t, size, int(le(epb.body[16:])))
		data := epb.body[20 : 20+size]
		require.Equal(t, string(want.from[:])+string(want.to[:])+want.packet, string(data))
		opts := map[uint16]string{2: want.flags}
		if i == 2 {
			opts[1] = tap.SentAgain
		}
		require.Equal(t, opts, options(t, epb.body[20+(size+3)/4*4:]))
	}
}

var errDisk = errors.New("disk full")

// shortDisk fails after some writes.
type shortDisk struct{ left int }

func (d *shortDisk) Write(b []byte) (int, error) {
	if d.left--; d.left < 0 {
		return 0, errDisk
	}
	return len(b), nil
}

func TestPcapngWriteError(t *testing.T) {
	_, err := tap.NewPcapng(&shortDisk{left: 1}, &ticks{})
	require.ErrorIs(t, err, errDisk)

	p, err := tap.NewPcapng(&shortDisk{left: 3}, &ticks{})
	require.NoError(t, err)
	for range 3 {
		p.Packet(tap.Record{Packet: []byte("x")})
	}
	require.ErrorIs(t, p.Err(), errDisk)
	require.ErrorContains(t, p.Err(), "2 packets")
}

// TestConformance: a tapped device is as good as the device, several shards and
// the count of allocations included.
func TestConformance(t *testing.T) {
	p, err := tap.NewPcapng(io.Discard, clock.System)
	require.NoError(t, err)
	devicetest.Run(t, func(tb testing.TB, devices int) *devicetest.Fabric {
		f, err := sim.New(sim.Config{})
		require.NoError(tb, err)
		df := &devicetest.Fabric{Shuffles: true, ReportsRefused: true}
		for range devices {
			dev, err := f.OpenDevice(able)
			require.NoError(tb, err)
			df.Devices = append(df.Devices, tap.Wrap(dev, p))
		}
		return df
	})
	require.NoError(t, p.Err())
}

// TestRDMA: the requester's tap sees what was asked for, the other one a write with
// immediate; a capture holds neither.
func TestRDMA(t *testing.T) {
	var file bytes.Buffer
	p, err := tap.NewPcapng(&file, &ticks{})
	require.NoError(t, err)
	empty := file.Len()
	rec := tap.NewRecorder(&ticks{})
	for _, sink := range []tap.Sink{rec, p} {
		f, err := sim.New(sim.Config{InOrder: true})
		require.NoError(t, err)
		var qps []device.QP
		var mr device.MR
		for i := range 2 {
			dev, err := f.OpenDevice(able)
			require.NoError(t, err)
			tapped := tap.Wrap(dev, sink)
			mr, err = tapped.Alloc(100, device.RemoteRead|device.RemoteWrite)
			require.NoError(t, err)
			qp, err := tapped.OpenQP(device.QPConfig{QPN: uint16(10 + i)})
			require.NoError(t, err)
			qp.PostRecv([]int32{0})
			qps = append(qps, qp)
		}
		toB, err := qps[0].CreateAH(sim.IndexGID(2))
		require.NoError(t, err)
		wr := device.SendWR{
			Kind: device.WRRead, AH: toB, QPN: 11, Payload: make([]byte, 30), RKey: mr.RKey(), Remote: mr.Addr() + 3,
		}
		require.NoError(t, qps[0].PostSend(&wr))
		wr.Kind, wr.HasImm, wr.Imm = device.WRWrite, true, 5
		require.NoError(t, qps[0].PostSend(&wr))
		wr.Kind = device.WRWrite + 1
		require.ErrorIs(t, qps[0].PostSend(&wr), device.ErrNotSupported)
		var c [4]device.Completion
		require.Equal(t, 1, qps[1].Poll(c[:]))
		if sink != rec {
			continue
		}
		self, other := wire.MakeRawAddr(sim.IndexGID(1), 10, 0), wire.MakeRawAddr(sim.IndexGID(2), 11, 0)
		require.Equal(t, []tap.Record{
			{Time: 5e9, Out: true, From: self, To: other, Kind: device.WRRead, Len: 30, RKey: mr.RKey(), Remote: mr.Addr() + 3},
			{
				Time: 10e9, Out: true, From: self, To: other, Kind: device.WRWrite, Len: 30,
				RKey: mr.RKey(), Remote: mr.Addr() + 3, HasImm: true, Imm: 5,
			},
			{Time: 15e9, From: self, To: other, Kind: device.WRWrite, Len: 30, HasImm: true, Imm: 5},
		}, rec.Take())
	}
	require.NoError(t, p.Err())
	require.Equal(t, empty, file.Len())
}

// TestForwards: a tap offers what is under it.
func TestForwards(t *testing.T) {
	f, err := sim.New(sim.Config{InOrder: true})
	require.NoError(t, err)
	d, err := f.OpenDevice(able)
	require.NoError(t, err)
	dev := tap.Wrap(d, tap.NewRecorder(&ticks{}))
	require.Equal(t, d.Info(), dev.Info())
	require.False(t, dev.Reaches(sim.IndexGID(99)))
	_, err = dev.RegisterForeign(1, 4096, 1, device.RemoteRead)
	require.ErrorIs(t, err, device.ErrNotSupported)
	qp, err := dev.OpenQP(device.QPConfig{QPN: 10})
	require.NoError(t, err)
	ah, err := qp.CreateAH(d.Info().GID)
	require.NoError(t, err)
	require.NoError(t, qp.SetRNRRetry(2))
	require.NoError(t, qp.PostSend(&device.SendWR{AH: ah, QPN: 10}))
	var c [1]device.Completion
	for qp.Poll(c[:]) == 0 {
	}
	require.Equal(t, device.StatusRNR, c[0].Status)
	require.NoError(t, qp.Close())
}
