package wireshark_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// links lists a frame's fields that name other frames, as name=frame.
func links(t *testing.T, f *frame) string {
	t.Helper()
	var words []string
	for _, name := range []string{"request", "response_to", "response_in", "repost_of", "copy_of", "copy_in", "message.segment", "no_request"} {
		if name == "no_request" && f.has(name) {
			words = append(words, name)
			continue
		}
		for _, n := range f.numbers(t, name) {
			words = append(words, fmt.Sprintf("%s=%d", name, n))
		}
	}
	return strings.Join(words, " ")
}

// TestLinks: for each flow, the frames and their links. All are seen at alice,
// unless the packet says otherwise.
func TestLinks(t *testing.T) {
	longCTS := func(id, sendID uint32) wire.Packet {
		return &wire.LongCTSRTM{MsgID: id, MsgLength: 100, SendID: sendID}
	}
	medium := func(id uint32, off uint64) wire.Packet {
		return &wire.MediumRTM{MsgID: id, MsgLength: 30, SegOffset: off}
	}
	runt := func(off uint64) wire.Packet {
		return &wire.RuntReadRTM{MsgLength: 100, RuntLength: 20, SegOffset: off, SendID: 7}
	}
	cts := func(sendID, recvID uint32) wire.Packet {
		return &wire.CTS{SendID: sendID, RecvID: recvID, RecvLength: 40}
	}
	ctsdata := func(recvID uint32, off uint64) wire.Packet {
		return &wire.CTSData{RecvID: recvID, SegLength: 10, SegOffset: off}
	}
	rtr := func(long bool, recvID uint32) wire.Packet {
		return &wire.RTR{LongCTS: long, RecvID: recvID, MsgLength: 60, RecvLength: 20, RMAIOVCount: 1}
	}
	ten := make([]byte, 10)
	type step struct {
		from string // alice, bob or carol; bob and carol send to alice
		pkt  wire.Packet
		data []byte
		want string
	}
	for name, steps := range map[string][]step{
		"first contact": {
			{"alice", &wire.EagerRTM{}, ten, "response_in=3"},
			{"alice", &wire.EagerRTM{MsgID: 1}, ten, ""},
			{"bob", &wire.Handshake{}, nil, "response_to=1 response_in=4"},
			{"alice", &wire.Handshake{}, nil, "response_to=3"},
		},
		"long-CTS": {
			{"alice", longCTS(5, 1), ten, "response_in=2 response_in=5 message.segment=1 message.segment=3 message.segment=4 message.segment=6"},
			{"bob", cts(1, 9), nil, "request=1 response_to=1 response_in=3 response_in=4"},
			{"alice", ctsdata(9, 10), ten, "request=1 response_to=2"},
			{"alice", ctsdata(9, 20), ten, "request=1 response_to=2"},
			{"bob", cts(1, 9), nil, "request=1 response_to=1 response_in=6"},
			{"alice", ctsdata(9, 50), ten, "request=1 response_to=5"},
		},
		"ids that are used again": {
			{"alice", longCTS(0, 1), ten, "response_in=2 message.segment=1 message.segment=3"},
			{"bob", cts(1, 9), nil, "request=1 response_to=1 response_in=3"},
			{"alice", ctsdata(9, 10), ten, "request=1 response_to=2"},
			{"alice", longCTS(1, 1), ten, "response_in=5 message.segment=4 message.segment=6"},
			{"bob", cts(1, 9), nil, "request=4 response_to=4 response_in=6"},
			{"alice", ctsdata(9, 10), ten, "request=4 response_to=5"},
		},
		"ids of others": {
			{"alice", longCTS(0, 1), ten, "response_in=4 message.segment=1"},
			{"carol", longCTS(0, 1), ten, "message.segment=2"},
			{"carol", cts(1, 9), nil, "no_request"},
			{"bob", cts(1, 9), nil, "request=1 response_to=1"},
			{"bob", &wire.EOR{SendID: 1}, nil, "no_request"},
			{"bob", &wire.Receipt{TxID: 1}, nil, "no_request"},
		},
		"sent again": {
			{"alice", longCTS(0, 1), ten, "response_in=3 response_in=7 message.segment=1 message.segment=5"},
			{"alice", longCTS(0, 1), ten, "request=1 repost_of=1"},
			{"bob", cts(1, 9), nil, "request=1 response_to=1 response_in=5"},
			{"bob", cts(1, 9), nil, "request=1 repost_of=3"},
			{"alice", ctsdata(9, 10), ten, "request=1 response_to=3"},
			{"alice", ctsdata(9, 10), ten, "request=1 repost_of=5"},
			{"bob", &wire.Handshake{}, nil, "response_to=1"},
			{"bob", &wire.Handshake{}, nil, "repost_of=7"},
		},
		"medium": {
			{"alice", medium(4, 10), ten, "message.segment=1 message.segment=3 message.segment=4"},
			{"alice", medium(5, 10), ten, "message.segment=2"},
			{"alice", medium(4, 0), ten, "request=1"},
			{"alice", medium(4, 20), ten, "request=1"},
			{"alice", medium(4, 20), ten, "request=1 repost_of=4"},
		},
		"delivery complete": {
			{"alice", &wire.MediumRTM{DC: true, MsgLength: 20, SendID: 3}, ten, "response_in=5 message.segment=1 message.segment=2"},
			{"alice", &wire.MediumRTM{DC: true, MsgLength: 20, SendID: 3, SegOffset: 10}, ten, "request=1"},
			{"alice", &wire.EagerRTM{DC: true, MsgID: 1, SendID: 4}, ten, "response_in=4"},
			{"bob", &wire.Receipt{TxID: 4, MsgID: 1}, nil, "request=3 response_to=3"},
			{"bob", &wire.Receipt{TxID: 3}, nil, "request=1 response_to=1"},
			{"bob", &wire.Receipt{TxID: 3}, nil, "request=1 repost_of=5"},
			{"alice", &wire.EagerRTW{DC: true, SendID: 4}, nil, "response_in=9"},
			{"alice", &wire.EagerRTW{DC: true, SendID: 4}, nil, "request=7 repost_of=7"},
			{"bob", &wire.Receipt{TxID: 4}, nil, "request=7 response_to=7"},
			{"alice", &wire.EagerRTW{DC: true, SendID: 4}, nil, ""}, // the id is free, so it's another write
			{"alice", &wire.LongCTSRTW{DC: true, SendID: 5, MsgLength: 20}, ten, "response_in=12 response_in=14 message.segment=11 message.segment=13"},
			{"bob", cts(5, 1), nil, "request=11 response_to=11 response_in=13"},
			{"alice", ctsdata(1, 10), ten, "request=11 response_to=12"},
			{"bob", &wire.Receipt{TxID: 5}, nil, "request=11 response_to=11"},
		},
		"reads": {
			{"alice", rtr(false, 3), nil, "response_in=2 message.segment=2"},
			{"bob", &wire.READRSP{RecvID: 3, SendID: 8, SegLength: 10}, ten, "request=1 response_to=1"},
			{"alice", rtr(true, 4), nil, "response_in=4 response_in=5 message.segment=4 message.segment=5 message.segment=7"},
			{"bob", &wire.READRSP{RecvID: 4, SendID: 8, SegLength: 10}, ten, "request=3 response_to=3 response_in=6"},
			{"bob", ctsdata(4, 10), ten, "request=3 response_to=3"},
			{"alice", &wire.CTS{EmulatedRead: true, SendID: 8, RecvID: 4, RecvLength: 10}, nil, "request=3 response_to=4 response_in=7"},
			{"bob", ctsdata(4, 20), ten, "request=3 response_to=6"},
		},
		"a read's send_id is counted apart": {
			{"bob", longCTS(0, 8), ten, "response_in=5 message.segment=1"},
			{"alice", rtr(true, 4), nil, "response_in=3 message.segment=3"},
			{"bob", &wire.READRSP{RecvID: 4, SendID: 8, SegLength: 10}, ten, "request=2 response_to=2 response_in=4"},
			{"alice", &wire.CTS{EmulatedRead: true, SendID: 8, RecvID: 4, RecvLength: 10}, nil, "request=2 response_to=3"},
			{"alice", cts(8, 5), nil, "request=1 response_to=1"},
		},
		"atomics": {
			{"alice", &wire.RTA{Kind: wire.RTAFetch, RecvID: 1}, nil, "response_in=5"},
			{"alice", &wire.RTA{Kind: wire.RTACompare, MsgID: 1, RecvID: 2}, nil, "response_in=4"},
			{"alice", &wire.RTA{Kind: wire.RTADCWrite, MsgID: 2, SendID: 2}, nil, "response_in=6"},
			{"bob", &wire.ATOMRSP{RecvID: 2}, nil, "request=2 response_to=2"},
			{"bob", &wire.ATOMRSP{RecvID: 1}, nil, "request=1 response_to=1"},
			{"bob", &wire.Receipt{TxID: 2}, nil, "request=3 response_to=3"},
			{"alice", &wire.RTA{Kind: wire.RTAWrite, MsgID: 3}, nil, ""},
		},
		"long-read": {
			{"alice", &wire.LongReadRTM{SendID: 1}, nil, "response_in=3"},
			{"alice", &wire.LongReadRTW{SendID: 2}, nil, "response_in=4"},
			{"bob", &wire.EOR{SendID: 1}, nil, "request=1 response_to=1"},
			{"bob", &wire.EOR{SendID: 2, Short: true}, nil, "request=2 response_to=2"},
		},
		"READ_NACK of a runting read": {
			{"alice", runt(0), ten, "response_in=3 message.segment=1 message.segment=2 message.segment=6"},
			{"alice", runt(10), ten, "request=1"},
			{"bob", &wire.ReadNACK{SendID: 7, RecvID: 9}, nil, "request=1 response_to=1 response_in=4"},
			{"alice", &wire.LongCTSRTM{DC: true, ReadNACK: true, MsgLength: 100, SendID: 7}, nil, "request=1 response_to=3 response_in=5 response_in=7"},
			{"bob", cts(7, 9), nil, "request=1 response_to=4 response_in=6"},
			{"alice", ctsdata(9, 20), ten, "request=1 response_to=5"},
			{"bob", &wire.Receipt{TxID: 7}, nil, "request=1 response_to=4"},
		},
		"READ_NACK of a write": {
			{"alice", &wire.LongReadRTW{SendID: 7, MsgLength: 40}, nil, "response_in=2 message.segment=4 message.segment=6"},
			{"bob", &wire.ReadNACK{SendID: 7, RecvID: 9}, nil, "request=1 response_to=1 response_in=4"},
			{"bob", &wire.ReadNACK{SendID: 7, RecvID: 9}, nil, "request=1 repost_of=2"},
			{"alice", &wire.LongCTSRTW{MsgLength: 40, SendID: 7}, ten, "request=1 response_to=2 response_in=5"},
			{"bob", cts(7, 10), nil, "request=1 response_to=4 response_in=6"},
			{"alice", ctsdata(10, 20), ten, "request=1 response_to=5"},
		},
		"PEER_ERROR": {
			{"alice", longCTS(0, 1), ten, "response_in=2 message.segment=1 message.segment=3"},
			{"bob", cts(1, 9), nil, "request=1 response_to=1 response_in=3 response_in=4"},
			{"alice", ctsdata(9, 10), ten, "request=1 response_to=2"},
			{"alice", &wire.PeerError{Form: wire.PeerErrorForm20, OpID: 9}, nil, "request=1 response_to=2"},
			{"alice", &wire.LongReadRTM{MsgID: 1, SendID: 2}, nil, "response_in=6"},
			{"bob", &wire.PeerError{MsgID: 1, OpID: 2, Emitter: wire.EmitterRX}, nil, "request=5 response_to=5"},
			{"alice", medium(2, 0), ten, "message.segment=7"},
			{"alice", &wire.PeerError{Form: wire.PeerErrorForm20, OpID: 2, RefKind: wire.RefMsgID}, nil, "request=7"},
			{"bob", &wire.PeerError{Form: wire.PeerErrorForm28, OpID: 77, Emitter: wire.EmitterRX}, nil, "no_request"},
			{"alice", medium(3, 0), ten, "message.segment=10"},
			{"alice", &wire.PeerError{MsgID: 3, OpID: wire.NoOpID, Emitter: wire.EmitterTX}, nil, "request=10"},
			{"bob", &wire.PeerError{Form: wire.PeerErrorForm28, MsgID: 3, OpID: wire.NoOpID, Emitter: wire.EmitterRX}, nil, "request=10"},
		},
		"requests before the capture": {
			{"bob", cts(1, 2), nil, "no_request"},
			{"bob", ctsdata(1, 2), ten, "no_request"},
			{"bob", &wire.READRSP{SegLength: 10}, ten, "no_request"},
			{"bob", &wire.ATOMRSP{}, nil, "no_request"},
			{"bob", &wire.ReadNACK{}, nil, "no_request"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rec := newRecording(t)
			for _, s := range steps {
				switch s.from {
				case "alice":
					rec.sent(alice, bob, s.pkt, s.data...)
				case "bob":
					rec.received(bob, alice, s.pkt, s.data...)
				default:
					rec.received(carol, alice, s.pkt, s.data...)
				}
			}
			frames := dissect(t, rec.save())
			got := []string{}
			for i, f := range frames {
				require.False(t, f.has("malformed"), "frame %d", i+1)
				got = append(got, links(t, f))
			}
			want := []string{}
			for _, s := range steps {
				want = append(want, s.want)
			}
			require.Equal(t, want, got)
		})
	}
}
