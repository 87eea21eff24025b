package wireshark_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// all returns every frame's values of one field, nil where it has none.
func all(t *testing.T, frames []*frame, name string) (list [][]uint64) {
	t.Helper()
	for _, f := range frames {
		list = append(list, f.numbers(t, name))
	}
	return list
}

// TestBothEnds: a capture of both endpoints has each packet twice; the two are known
// as one, in whichever order they were written, and links name the first.
func TestBothEnds(t *testing.T) {
	rec := newRecording(t)
	eager := &wire.EagerRTM{DC: true, SendID: 1}
	same := &wire.EagerRTW{} // the requests are identical
	rec.sent(alice, bob, eager)
	rec.received(alice, bob, eager)
	rec.received(bob, alice, &wire.Receipt{TxID: 1}) // bob's shard was slower to write
	rec.sent(bob, alice, &wire.Receipt{TxID: 1})
	rec.sent(alice, bob, same)
	rec.sent(alice, bob, same)
	rec.received(alice, bob, same)
	rec.received(alice, bob, same)
	rec.sent(alice, alice, same)
	rec.received(alice, alice, same)
	file := rec.save()
	frames := dissect(t, file)
	got := []string{}
	for _, f := range frames {
		got = append(got, links(t, f))
	}
	require.Equal(t, []string{
		"response_in=3 copy_in=2", "response_in=3 copy_of=1",
		"request=1 response_to=1 copy_in=4", "request=1 response_to=1 copy_of=3",
		"copy_in=7", "copy_in=8", "copy_of=5", "copy_of=6",
		"copy_in=10", "copy_of=9",
	}, got)
	require.Equal(t, [][]uint64{{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}, {1}, {1}}, all(t, frames, "stream"))
	require.Equal(t, [][]string{
		{"3", "0.000002000", "RECEIPT send_id=1 msg_id=0"},
		{"4", "0.000003000", "RECEIPT send_id=1 msg_id=0 [copy of #3]"},
	}, columns(t, file, "efa_rdm.response_to == 1", "frame.number", "efa_rdm.time", "_ws.col.Info"))
}

// TestEndpoints: GID and QPN make a stream with the connid; where a capture lacks the
// connid of a sender elsewhere, the packet has it, or it is the latest that was seen.
func TestEndpoints(t *testing.T) {
	again := wire.MakeRawAddr(bob.GID(), bob.QPN(), 0x200b)
	connid := wire.Options{HasConnID: true, ConnID: again.ConnID()}
	raw := wire.Options{HasRawAddr: true, RawAddr: bob}
	longcts := &wire.LongCTSRTM{SendID: 1, MsgLength: 100}
	rec := newRecording(t)
	rec.received(bob, alice, &wire.EagerRTM{})             // stream 0, connid not known yet
	rec.received(bob, alice, &wire.EagerRTM{Options: raw}) // it's that one
	rec.sent(alice, bob, longcts)
	rec.received(carol, alice, &wire.EagerRTM{})                                          // stream 1
	rec.received(bob, alice, &wire.EagerRTM{Options: connid})                             // another one there: stream 2
	rec.received(bob, alice, &wire.CTS{SendID: 1})                                        // of the latest
	rec.received(bob, alice, &wire.CTS{SendID: 1, HasConnID: true, ConnID: bob.ConnID()}) // of the former
	rec.sent(alice, again, longcts)
	rec.sent(alice, carol, longcts)
	rec.received(bob, alice, &wire.CTS{SendID: 1, RecvID: 1})
	frames := dissect(t, rec.save())
	require.Equal(t, [][]uint64{{0}, {0}, {0}, {1}, {2}, {2}, {0}, {2}, {1}, {2}}, all(t, frames, "stream"))
	require.Equal(t, [][]uint64{nil, nil, nil, nil, nil, nil, {3}, nil, nil, {8}}, all(t, frames, "request"))
}

// TestMessage: length and missing bytes of a message, and bytes beyond its end.
func TestMessage(t *testing.T) {
	rec := newRecording(t)
	medium := func(id uint32, off uint64, n int) {
		rec.sent(alice, bob, &wire.MediumRTM{MsgID: id, MsgLength: 30, SegOffset: off}, make([]byte, n)...)
	}
	medium(1, 20, 10)
	medium(1, 0, 15)
	medium(2, 25, 6)
	rec.sent(alice, bob, &wire.LongCTSRTM{MsgID: 3, MsgLength: 1 << 40, SendID: 1}, 1, 2, 3)
	rec.received(bob, alice, &wire.CTS{SendID: 1})
	rec.sent(alice, bob, &wire.MediumRTM{MsgID: 4, MsgLength: 1<<64 - 1}, 1)
	frames := dissect(t, rec.save())
	require.Equal(t, [][]uint64{{1}, {1}, {3}, {4}, {4}, nil}, all(t, frames, "message.first"))
	require.Equal(t, [][]uint64{{30}, {30}, {30}, {1 << 40}, {1 << 40}, nil}, all(t, frames, "message.length"))
	require.Equal(t, [][]uint64{{5}, {5}, {24}, {1<<40 - 3}, {1<<40 - 3}, nil}, all(t, frames, "message.missing"))
	for i, f := range frames {
		require.Equal(t, i == 2, f.has("beyond_message"), "frame %d", i+1)
		require.Equal(t, i == 4, f.has("zero_recv_length"), "frame %d", i+1)
	}
}

// TestHeaderless: packets to a queue pair that a HANDSHAKE announced as one for data
// without headers have none, whatever their bytes.
func TestHeaderless(t *testing.T) {
	user := wire.MakeRawAddr(bob.GID(), 77, 0x4d)
	rec := newRecording(t)
	cts := (&wire.CTS{}).Append(nil)
	rec.sent(alice, user, &wire.CTS{})
	rec.received(bob, alice, &wire.Handshake{HasUserRecvQP: true, UserRecvQP: wire.UserRecvQP{QPN: 77, QKey: 0x4d}})
	rec.sent(alice, user, &wire.CTS{})
	rec.bytes(true, alice, user, nil)
	rec.sent(alice, bob, &wire.CTS{})
	file := rec.save()
	frames := dissect(t, file)
	for i, f := range frames {
		headerless := i == 2 || i == 3
		require.Equal(t, headerless, f.has("headerless"), "frame %d", i+1)
		require.Equal(t, !headerless, f.has("type"), "frame %d", i+1)
		require.False(t, f.has("malformed"), "frame %d", i+1)
	}
	require.Equal(t, []uint64{uint64(len(cts))}, frames[2].numbers(t, "len"))
	require.Equal(t, [][]string{{"HEADERLESS len=24"}, {"HEADERLESS len=0"}}, columns(t, file, "efa_rdm.headerless", "_ws.col.Info"))
}
