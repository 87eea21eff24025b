package peer

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// TestFreeClears: a packet from the pool says nothing of the one that it was before.
func TestFreeClears(t *testing.T) {
	env := &Env{Pool: new(Pool)}
	env.Config.PeerMemory, env.Config.TotalMemory = 1000, 1000
	link := &Link{env: env}
	p := env.Pool.Get(nil, link)
	fresh := *p
	fresh.Next, fresh.Link = nil, nil
	h := reflect.ValueOf(&p.Header).Elem()
	for _, field := range reflect.VisibleFields(h.Type()) {
		switch f := h.FieldByIndex(field.Index); f.Kind() {
		case reflect.Struct: // its fields are visible, too
		case reflect.Bool:
			f.SetBool(true)
		default:
			f.SetUint(uint64(wire.TypeCTS))
		}
	}
	p.own = env.Pool.Block(100)
	p.Payload, p.Aborted, p.charged = p.own[:7], true, 100
	p.Ext, p.Multi = env.Pool.getExt(), env.Pool.getMulti()
	p.Multi.packets = 1
	link.Charge(100)
	p.Free()
	require.Zero(t, link.Charged())
	require.Same(t, p, env.Pool.Get(nil, nil))
	require.Equal(t, fresh, *p)
}

// BenchmarkPacket is what each eager packet costs until the peer knows what it is, and
// afterwards: opened, read and given back.
func BenchmarkPacket(b *testing.B) {
	p := &Peer{env: &Env{Pool: new(Pool)}, link: new(Link)}
	eager := (&wire.EagerRTM{Tagged: true, Tag: 1, MsgID: 9}).Append(nil)
	r := new(device.RecvPkt)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.View.Open(eager); err != nil {
			b.Fatal(err)
		}
		pkt := p.read(r)
		pkt.slot = nil // there is no queue
		pkt.Free()
	}
}

// TestParse: what the headers of a request say becomes the packet's, and lengths that do not
// fit are errors.
func TestParse(t *testing.T) {
	iov := func(lens ...uint64) (a [wire.MaxIOV]wire.RMAIOV, n uint32) {
		for i, l := range lens {
			a[i] = wire.RMAIOV{Addr: 1, Len: l, Key: 2}
		}
		return a, uint32(len(lens))
	}
	medium := func(total, offset uint64) []byte {
		return (&wire.MediumRTM{MsgID: 7, MsgLength: total, SegOffset: offset}).Append(nil)
	}
	longCTS := func(total uint64) []byte {
		return (&wire.LongCTSRTM{MsgID: 7, MsgLength: total, SendID: 3, ReadNACK: true}).Append(nil)
	}
	longRead := func(total uint64, lens ...uint64) []byte {
		h := wire.LongReadRTM{MsgID: 7, MsgLength: total}
		h.ReadIOV, h.ReadIOVCount = iov(lens...)
		return h.Append(nil)
	}
	runt := func(total, runt, offset uint64, lens ...uint64) []byte {
		h := wire.RuntReadRTM{MsgID: 7, MsgLength: total, RuntLength: runt, SegOffset: offset}
		h.ReadIOV, h.ReadIOVCount = iov(lens...)
		return h.Append(nil)
	}
	write := func(lens ...uint64) []byte {
		h := wire.EagerRTW{}
		h.RMAIOV, h.RMAIOVCount = iov(lens...)
		return h.Append(nil)
	}
	longWrite := func(total uint64, lens ...uint64) []byte {
		h := wire.LongCTSRTW{MsgLength: total}
		h.RMAIOV, h.RMAIOVCount = iov(lens...)
		return h.Append(nil)
	}
	read := func(total uint64, lens ...uint64) []byte {
		h := wire.RTR{MsgLength: total, RecvLength: 5, LongCTS: true}
		h.RMAIOV, h.RMAIOVCount = iov(lens...)
		return h.Append(nil)
	}
	const huge = 1<<63 - 1
	for _, x := range []struct {
		name   string
		header []byte
		data   string
		bad    bool
		want   Header // Length and Offset alone
	}{
		{name: "medium, the first", header: medium(8, 0), data: "abcd", want: Header{Length: 8}},
		{name: "medium, the last", header: medium(8, 4), data: "efgh", want: Header{Length: 8, Offset: 4}},
		{name: "medium, past the end", header: medium(8, 5), data: "efgh", bad: true},
		{name: "medium, offset past the end", header: medium(8, 9), bad: true},
		{name: "medium, offset that wraps", header: medium(8, 1<<64-2), data: "abcd", bad: true},
		{name: "medium, of more than memory", header: medium(1<<63, 0), data: "abcd", bad: true},
		{name: "long-CTS", header: longCTS(9), data: "abcd", want: Header{Length: 9}},
		{name: "long-CTS, too short for its data", header: longCTS(3), data: "abcd", bad: true},
		{name: "long read", header: longRead(9, 4, 5), want: Header{Length: 9}},
		{name: "long read, of less memory", header: longRead(9, 4), bad: true},
		{name: "long read, of more memory", header: longRead(9, 4, 6), bad: true},
		{name: "long read, of lengths that wrap", header: longRead(1, huge, huge, 3), bad: true},
		{name: "runting read", header: runt(9, 4, 0, 9), data: "abcd", want: Header{Length: 9}},
		{name: "runting read, a part", header: runt(9, 4, 2, 9), data: "cd", want: Header{Length: 9, Offset: 2}},
		{name: "runting read, past the runt", header: runt(9, 4, 2, 9), data: "cde", bad: true},
		{name: "runting read, no runt", header: runt(9, 0, 0, 9), bad: true},
		{name: "runting read, a runt longer than the message", header: runt(3, 4, 0, 3), data: "abcd", bad: true},
		{name: "write", header: write(4), data: "abcd", want: Header{Length: 4}},
		{name: "write, to nowhere", header: write(), want: Header{}},
		{name: "write, to less memory", header: write(3), data: "abcd", bad: true},
		{name: "long-CTS write", header: longWrite(9, 9), data: "abcd", want: Header{Length: 9}},
		{name: "long-CTS write, too short for its data", header: longWrite(3, 3), data: "abcd", bad: true},
		{name: "read", header: read(9, 9), want: Header{Length: 9}},
		{name: "read, of less memory", header: read(9, 8), bad: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			pool := new(Pool)
			p := pool.Get(nil, nil)
			v, err := wire.Open(append(x.header, x.data...))
			require.NoError(t, err)
			p.Type = v.Type
			err = p.parse(&v, v.Bytes())
			if x.bad {
				require.ErrorIs(t, err, wire.ErrLength)
				return
			}
			require.NoError(t, err)
			require.Equal(t, x.data, string(p.Payload))
			require.Equal(t, x.want.Length, p.Length)
			require.Equal(t, x.want.Offset, p.Offset)
			if v.Type.HasMsgID() {
				require.Equal(t, uint32(7), p.MsgID)
			}
		})
	}
}
