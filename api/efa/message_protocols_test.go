package efa_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

// TestMessageProtocols: on both sides of each switch point of messages the
// subprotocol is what it should be, whether or not the receive was posted first.
func TestMessageProtocols(t *testing.T) {
	const (
		mtu     = sim.DefaultMTU
		headers = wire.ConnIDHdrLen + wire.CQDataHdrLen
		eager   = mtu - wire.EagerMsgRTMLen - headers
		dcEager = mtu - wire.DCEagerMsgRTMLen - headers
		dcTag   = mtu - wire.DCEagerTagRTMLen - headers
		most    = 1 << 21
	)
	// What cannot be read into plain memory, the receiver asks for in packets.
	replaced := map[string]string{"long-read": "long-CTS", "runting read": "long-CTS"}
	reads := sim.DeviceConfig{RDMARead: true, LocalKeys: true}
	type row struct {
		size  int
		proto string
	}
	for name, x := range map[string]struct {
		dev   sim.DeviceConfig
		ep    efa.ProtocolConfig
		level efa.Level
		tag   bool
		plain bool // the sender's memory is not registered
		rows  []row
	}{
		"plain": {rows: []row{{0, "eager"}, {eager, "eager"}, {eager + 1, "medium"}, {65536, "medium"}, {65537, "long-CTS"}, {most, "long-CTS"}}},
		"delivered": {level: efa.Delivered, rows: []row{
			{0, "DC eager"}, {dcEager, "DC eager"}, {dcEager + 1, "DC medium"}, {65536, "DC medium"}, {65537, "DC long-CTS"},
		}},
		"matched, tagged": {level: efa.Delivered, tag: true, rows: []row{{dcTag, "DC eager"}, {dcTag + 1, "DC medium"}, {65537, "DC long-CTS"}}},
		"reads":           {dev: reads, rows: []row{{65536, "medium"}, {1<<20 - 1, "long-CTS"}, {1 << 20, "long-read"}, {1<<20 + 1, "long-read"}}},
		"reads, delivered": {dev: reads, level: efa.Delivered, tag: true, rows: []row{
			{1<<20 - 1, "DC long-CTS"}, {1 << 20, "long-read"},
		}},
		"reads, own switch point": {
			dev: reads, ep: efa.ProtocolConfig{MinRead: 5000, ReadSegment: 1111},
			rows: []row{{4999, "eager"}, {5000, "long-read"}, {5001, "long-read"}, {100_000, "long-read"}},
		},
		"runting": {
			dev: reads, ep: efa.ProtocolConfig{MinRead: 20_000, RuntSize: 10_000}, tag: true,
			rows: []row{{19_999, "medium"}, {20_000, "runting read"}, {most, "runting read"}},
		},
		"plain memory": {dev: reads, plain: true, rows: []row{{1 << 20, "long-CTS"}}},
		"none wanted":  {dev: reads, ep: efa.ProtocolConfig{MinRead: -1}, rows: []row{{1 << 20, "long-CTS"}}},
		"no RDMA":      {dev: reads, ep: efa.ProtocolConfig{NoRDMARead: true}, rows: []row{{1 << 20, "long-CTS"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := lab{dev: x.dev, ep: efa.EndpointConfig{Protocol: x.ep}}.open(t)
			marker(t, a, b)
			marker(t, b, a)
			src, dst := alloc(t, a, most, 0).Bytes(), alloc(t, b, most, 0).Bytes()
			if x.plain {
				src = pattern(most)
			}
			for i, row := range x.rows {
				for plain, to := range [][]byte{dst[:row.size], make([]byte, row.size)} {
					what, proto := fmt.Sprintf("message of %d", row.size), row.proto
					if plain == 1 {
						if proto = replaced[proto]; proto == "" {
							proto = row.proto
						} else if x.level == efa.Delivered {
							proto = "DC " + proto
						}
					}
					clear(to)
					send := &efa.SendReq{To: a.peer, Buf: src[:row.size], Level: x.level, Tagged: x.tag, Tag: 5, HasData: true, Data: 1 << 40}
					recv := &efa.RecvReq{Buf: to, Tagged: x.tag, Tag: 5}
					var s, r *efa.Op
					if i%2 == 0 {
						s, r = start(t, a, send), start(t, b, recv)
					} else {
						r, s = start(t, b, recv), start(t, a, send)
					}
					c := done(t, r)
					require.Equal(t, row.size, c.N, what)
					require.EqualValues(t, 1<<40, c.Data, what)
					require.True(t, bytes.Equal(src[:row.size], to), what)
					require.Equal(t, proto, done(t, s).Protocol.String(), what)
				}
			}
		})
	}
}

// TestDelivered: a send with that level does not complete before a receive has the
// message, one with the default level does.
func TestDelivered(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		for _, n := range []int{0, 5000, 50_000, 200_000, 2 << 20} {
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, n), Level: efa.Delivered, Tagged: true})
			marker(t, a, b)
			select {
			case <-op.Done():
				t.Fatalf("%d bytes: complete without a receive", n)
			default:
			}
			_, err := b.ep.RecvTag(ctx, efa.AnyTag, make([]byte, n))
			require.NoError(t, err)
			done(t, op)
		}
		require.NoError(t, a.ep.Send(ctx, a.peer, make([]byte, 100)), "nobody receives it")
		// An endpoint's level is a default, which a call can change.
		v := newEndpoint(t, a.dom, efa.EndpointConfig{Level: efa.Delivered, AV: a.av})
		require.NoError(t, v.ep.Send(ctx, a.peer, make([]byte, 100), efa.Complete(efa.Transmitted)))
		require.NoError(t, v.ep.Send(ctx, a.peer, make([]byte, 100), efa.Inject))
	})
}
