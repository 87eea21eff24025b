package endpoint_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// Here are orders of events within one turn, which a scenario can't write down.

// start opens an endpoint with a peer a, known both ways.
func start(t *testing.T, cfg script.Config) (*script.Rig, *script.Remote) {
	t.Helper()
	cfg.Info.CopiesAtPost = true
	if cfg.Info.MTU == 0 {
		cfg.Info.MTU = 1000
	}
	r, err := script.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.Empty(t, r.Ends())
		require.Empty(t, r.QP.Faults)
		require.Zero(t, r.EP.Memory().Charged)
	})
	a := addPeer(t, r, "a", 1)
	return r, a
}

func addPeer(t *testing.T, r *script.Rig, name string, host byte) *script.Remote {
	t.Helper()
	x := script.NewRemote(name, host, 1, 0xa0+uint32(host))
	r.AddRemote(x)
	r.Insert(x)
	h := wire.Handshake{Features: wire.MakeFeatures(wire.FeatureConnIDHeader), HasConnID: true, ConnID: x.Addr.ConnID()}
	require.True(t, r.Inject(x, h.Append(nil)))
	r.Run()
	for _, s := range r.QP.Flying() {
		r.QP.Complete(s, device.StatusOK)
	}
	r.Run()
	return x
}

func inject(t *testing.T, r *script.Rig, x *script.Remote, line ...string) {
	t.Helper()
	b, err := x.Packet(line)
	require.NoError(t, err)
	require.True(t, r.Inject(x, b))
}

func calm(t *testing.T, r *script.Rig) {
	t.Helper()
	require.Zero(t, r.Shard.Stats().Failures, "panics")
}

// TestCloseOnSubmit: the close overtakes the grant of a turn.
func TestCloseOnSubmit(t *testing.T) {
	r, a := start(t, script.Config{Endpoint: set(settings.Settings{MaxMedium: 3000})})
	for _, n := range []int{0, 10, 2000, 5000} {
		r.Send(a, n, 0, 0, 0)
	}
	r.Recv(a, 10, 0, 0, 0)
	r.BeginClose()
	r.Run()
	require.Len(t, r.Outcomes, 5)
	calm(t, r)
}

// TestDeathOnSubmit: the peer dies in the turn in which a send is submitted.
func TestDeathOnSubmit(t *testing.T) {
	r, a := start(t, script.Config{})
	b := addPeer(t, r, "b", 2)
	for range 3 {
		r.QP.Gone(a.Addr.GID(), a.Addr.QPN(), a.Addr.ConnID())
		r.Send(a, 10, 0, 0, 0)
		r.Send(b, 10, 0, 0, 0)
		r.Run()
	}
	for _, s := range r.QP.Flying() {
		r.QP.Complete(s, device.StatusOK)
	}
	r.Run()
	require.Len(t, r.Outcomes, 6)
	for _, o := range r.Outcomes {
		if o.Op.Req.Peer == a.Handle {
			require.ErrorIs(t, o.Res.Err, peer.ErrDied)
		} else {
			require.NoError(t, o.Res.Err)
		}
	}
	calm(t, r)
}

// TestDeathOfALine: a peer dies with more sends in line than a turn handles
// messages, and the operations that end are used again at once, for another peer:
// messages for their former use must not reach them.
func TestDeathOfALine(t *testing.T) {
	r, a := start(t, script.Config{Endpoint: set(settings.Settings{SendQueue: 4})})
	b := addPeer(t, r, "b", 2)
	const sends = 400
	for range sends {
		r.Send(a, 10, 0, 0, 0)
	}
	r.Run()
	r.QP.Gone(a.Addr.GID(), a.Addr.QPN(), a.Addr.ConnID())
	var after []*script.Op
	for range 40 {
		r.Shard.Turn()
		after = append(after, r.Send(b, 10, 0, 0, 0))
	}
	r.Auto = true
	r.Run()
	for _, s := range r.QP.Flying() {
		r.QP.Complete(s, device.StatusOK)
	}
	r.Run()
	require.Len(t, r.Outcomes, sends+len(after))
	for _, o := range r.Outcomes {
		if o.Op.Req.Peer == b.Handle {
			require.NoError(t, o.Res.Err)
		}
	}
	calm(t, r)
}

// TestDeathBehindMessage: the peer dies behind its message, in one poll. A
// message that is there in full is received; a part of one must not use up a receive.
func TestDeathBehindMessage(t *testing.T) {
	for _, c := range []struct {
		line []string
		done bool
	}{
		{[]string{"EAGER_MSGRTM", "msg_id=0", "len=5"}, true},
		{[]string{"MEDIUM_MSGRTM", "msg_id=0", "msg_length=900", "seg_offset=0", "len=400"}, false},
		{[]string{"LONGCTS_MSGRTM", "msg_id=0", "msg_length=900", "len=400"}, false},
	} {
		t.Run(c.line[0], func(t *testing.T) {
			r, a := start(t, script.Config{})
			b := addPeer(t, r, "b", 2)
			first, second := r.Recv(nil, 1000, 0, 0, 0), r.Recv(nil, 1000, 0, 0, 0)
			r.Run()
			inject(t, r, a, c.line...)
			r.QP.Gone(a.Addr.GID(), a.Addr.QPN(), a.Addr.ConnID())
			r.Run()
			if c.done {
				require.Equal(t, 1, first.Ends)
				require.NoError(t, r.Outcomes[0].Res.Err)
				first = second
			}
			inject(t, r, b, "EAGER_MSGRTM", "msg_id=0", "len=7")
			r.Run()
			require.Equal(t, 1, first.Ends, "the receive is lost")
			calm(t, r)
		})
	}
}

// TestDeathBehindSegments: a message fails with its peer while segments of it are
// between the actors.
func TestDeathBehindSegments(t *testing.T) {
	r, a := start(t, script.Config{})
	op := r.Recv(nil, 1000, 0, 0, 0)
	inject(t, r, a, "MEDIUM_MSGRTM", "msg_id=0", "msg_length=900", "seg_offset=0", "len=300")
	r.Run()
	inject(t, r, a, "MEDIUM_MSGRTM", "msg_id=0", "msg_length=900", "seg_offset=300", "len=300")
	r.QP.Gone(a.Addr.GID(), a.Addr.QPN(), a.Addr.ConnID())
	inject(t, r, a, "MEDIUM_MSGRTM", "msg_id=0", "msg_length=900", "seg_offset=600", "len=300")
	r.Run()
	require.Equal(t, 1, op.Ends)
	require.ErrorIs(t, r.Outcomes[0].Res.Err, peer.ErrDied)
	calm(t, r)
}

// TestCancelOnSubmit: a send is canceled in the turn in which it was submitted, on
// its way to, in, or behind the line. Exactly one outcome, and no msg_id is lost.
func TestCancelOnSubmit(t *testing.T) {
	r, a := start(t, script.Config{Endpoint: set(settings.Settings{SendQueue: 2})})
	for range 4 {
		r.Cancel(r.Send(a, 10, 0, 0, 0))
	}
	r.Auto = true
	r.Run()
	r.Send(a, 10, 0, 0, 0)
	r.Run()
	var id uint32
	for _, s := range r.QP.Sent() {
		var h wire.EagerRTM
		if wire.Type(s.Bytes[0]) != wire.TypeEagerMsgRTM {
			continue
		}
		v, err := wire.Open(s.Bytes)
		require.NoError(t, err)
		_, err = h.Read(&v)
		require.NoError(t, err)
		require.Equal(t, id, h.MsgID)
		id++
	}
	require.NotZero(t, id)
	calm(t, r)
}

// TestBufferAfterCancel: a send is canceled in the turn in which some of its packets were posted, and its caller
// changes the buffer at once. The device has what the caller had sent, though payloads stay until the doorbell;
// script tells it otherwise.
func TestBufferAfterCancel(t *testing.T) {
	for _, proto := range []settings.Settings{{SendQueue: 2}, {SendQueue: 2, MaxMedium: -1}} {
		r, a := start(t, script.Config{Endpoint: set(proto)})
		canceled := 0
		r.OnDone = func(op *script.Op) {
			canceled++
			clear(op.Req.Buf)
		}
		r.Cancel(r.Send(a, 3000, 0, 0, 0))
		for r.Shard.Turn() > 0 {
			require.Empty(t, r.QP.Faults)
		}
		require.Equal(t, 1, canceled)
		r.Auto = true
		r.Run()
		calm(t, r)
	}
}

// TestPlaced: payloads of later packets go to their place. What a connection that breaks has put there reports nothing:
// the packet comes again, and the message takes no second receive. One that is canceled has no place any more.
func TestPlaced(t *testing.T) {
	r, a := start(t, script.Config{})
	packet := func(id, off int) []byte {
		b, err := r.Packet(a, []string{"MEDIUM_MSGRTM", fmt.Sprint("msg_id=", id), "msg_length=300", fmt.Sprint("seg_offset=", off), "len=100", "seed=7", "connid"})
		require.NoError(t, err)
		return b
	}
	first, second := r.Recv(a, 300, 0, 0, 0), r.Recv(a, 300, 0, 0, 0)
	require.False(t, r.QP.Begin(a.Addr.GID(), a.Addr.QPN(), packet(0, 0), 99), "it has not begun")
	for i, off := range []int{0, 200, 100} {
		b := packet(0, off)
		require.Equal(t, i > 0, r.QP.Begin(a.Addr.GID(), a.Addr.QPN(), b, 99))
		require.True(t, r.Inject(a, b))
		require.Equal(t, i, r.QP.Placed)
		r.Run()
	}
	require.Len(t, r.Outcomes, 1)
	require.Same(t, first, r.Outcomes[0].Op)
	require.NoError(t, r.Outcomes[0].Res.Err)
	want := make([]byte, 300)
	script.Fill(want, 0, 7)
	require.Equal(t, want, first.Req.Buf)
	require.False(t, r.QP.Begin(a.Addr.GID(), a.Addr.QPN(), packet(0, 100), 99), "it is over")

	require.True(t, r.Inject(a, packet(1, 0)))
	r.Run()
	late := packet(1, 100)
	require.True(t, r.Inject(a, late)) // to its place, before the cancel
	r.Cancel(second)
	r.Run()
	require.Len(t, r.Outcomes, 2)
	clear(second.Req.Buf)
	require.False(t, r.QP.Begin(a.Addr.GID(), a.Addr.QPN(), packet(1, 200), 200), "it was canceled")
	require.True(t, r.Inject(a, packet(1, 200)))
	r.Run()
	require.Equal(t, make([]byte, 300), second.Req.Buf)

	third := r.Recv(a, 500, 0, 0, 0)
	require.True(t, r.Inject(a, packet(2, 0)))
	r.Run()
	require.False(t, r.QP.Begin(a.Addr.GID(), a.Addr.QPN(), packet(2, 201), 99), "it ends behind the message")
	require.False(t, r.QP.Begin(a.Addr.GID(), a.Addr.QPN(), packet(2, 400), 99), "it lies behind the message")
	for _, off := range []int{100, 200} {
		require.True(t, r.Inject(a, packet(2, off)))
		r.Run()
	}
	require.Len(t, r.Outcomes, 3)
	require.Same(t, third, r.Outcomes[2].Op)
	require.NoError(t, r.Outcomes[2].Res.Err)
	calm(t, r)
}

// TestStrangersTogether: a stranger's packets that come in one poll, before there
// is a peer, keep their order and make one peer.
func TestStrangersTogether(t *testing.T) {
	r, _ := start(t, script.Config{})
	x := script.NewRemote("x", 9, 1, 0x99)
	r.AddRemote(x)
	for _, id := range []string{"msg_id=2", "msg_id=0", "msg_id=1"} {
		r.Recv(nil, 10, 0, 0, 0)
		inject(t, r, x, "EAGER_MSGRTM", id, "len=1", "raw_addr")
	}
	r.Run()
	require.Len(t, r.Outcomes, 3)
	require.Len(t, r.Events, 1)
	calm(t, r)
}

// TestTruncatedPackets: a packet of every type, cut at every length, is counted. It ends its sender if
// it may have had a msg_id that cannot be read, spends one that can be, and else does nothing.
// An eager packet that keeps its header is a shorter message.
func TestTruncatedPackets(t *testing.T) {
	for _, line := range [][]string{
		{"EAGER_MSGRTM", "raw_addr", "cq_data=1"},
		{"EAGER_TAGRTM", "tag=1", "cq_data=1", "connid"},
		{"MEDIUM_MSGRTM", "msg_length=500", "raw_addr", "cq_data=1"},
		{"MEDIUM_TAGRTM", "msg_length=500", "tag=1", "connid"},
		{"LONGCTS_MSGRTM", "msg_length=500", "raw_addr", "cq_data=1"},
		{"LONGCTS_TAGRTM", "msg_length=500", "tag=1", "connid"},
		{"EAGER_RTW", "raw_addr"},
		{"SHORT_RTR", "raw_addr"},
		{"WRITE_RTA", "connid"},
		{"LONGREAD_MSGRTM", "connid"},
		{"RUNTREAD_TAGRTM", "msg_length=10", "runt_length=8"},
		{"DC_LONGCTS_MSGRTM", "msg_length=10"},
		{"COMPARE_RTA"},
		{"DC_EAGER_TAGRTM", "connid"},
		{"DC_MEDIUM_TAGRTM", "connid"},
		{"CTS", "recv_length=5"},
		{"CTSDATA", "connid"},
		{"EOR"},
		{"HANDSHAKE", "features=200", "connid", "host_id=1", "device_version=1", "p2p", "user_recv_qp"},
	} {
		t.Run(line[0], func(t *testing.T) {
			_, a := start(t, script.Config{})
			whole, err := a.Packet(line)
			require.NoError(t, err)
			for n := range len(whole) {
				r, a := start(t, script.Config{})
				op := r.Recv(a, 10, 0, 0, 0)
				require.True(t, r.Inject(a, whole[:n]))
				r.Run()
				c := r.EP.Counters()
				require.EqualValues(t, 1, c.BadShort+c.BadLength, "%d of %d bytes", n, len(whole))
				if unreadable(whole, n) {
					require.Len(t, r.Events, 2, "%d of %d bytes", n, len(whole))
					require.ErrorIs(t, r.Events[1].Err, peer.ErrUnreadable)
					require.Equal(t, 1, op.Ends, "%d of %d bytes", n, len(whole))
					continue
				}
				for _, ev := range r.Events {
					require.Equal(t, endpoint.BadPacket, ev.Kind)
				}
				require.Zero(t, op.Ends)
				next := "msg_id=0"
				if c.Malformed > 0 {
					next = "msg_id=1"
				}
				inject(t, r, a, "EAGER_MSGRTM", next, "len=1")
				r.Run()
				require.Equal(t, 1, op.Ends)
				calm(t, r)
			}
		})
	}
}

// unreadable reports whether the first n bytes of a packet end their sender: they do not say what packet it is, or
// which msg_id it has.
func unreadable(whole []byte, n int) bool {
	var v wire.View
	if v.Open(whole[:n]) != nil {
		return true
	}
	_, ok := v.MsgID()
	return v.Type.HasMsgID() && !ok
}

// set is the configuration of an endpoint with the given settings.
func set(s settings.Settings) endpoint.Config {
	return endpoint.Config{Settings: settings.InForce{Settings: s}}
}

// TestSendersGiveWay: an application that sends again with each completion leaves room
// in the send queue for the operations that wait for it.
func TestSendersGiveWay(t *testing.T) {
	for name, req := range map[string]ope.Request{
		"short": {Kind: ope.KindSend}, "write": {Kind: ope.KindWrite, Addr: 0x1000, Key: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, a := start(t, script.Config{Endpoint: set(settings.Settings{SendQueue: 4})})
			b := addPeer(t, r, "b", 2)
			send := func() {
				req.Peer, req.Buf = a.Handle, script.Pattern(10, r.NextSeed())
				r.Submit(req, r.NextSeed())
			}
			for range 4 {
				send()
			}
			r.Run()
			waits := r.Send(b, 10, 0, 0, 0)
			r.Run()
			r.OnDone = func(op *script.Op) {
				if op.Req.Peer == a.Handle {
					send()
				}
			}
			for range 20 {
				r.QP.Complete(r.QP.Flying()[0], device.StatusOK)
				r.Run()
			}
			require.Equal(t, 1, waits.Ends)
			r.OnDone = nil
			completeAll(r)
		})
	}
}

// TestHops counts the messages that go through the ring: none for operations that wait
// for nothing but an acknowledgement. Where every message takes the ring there are three
// for an eager send and three for an eager receive, as docs/architecture.md lists them.
func TestHops(t *testing.T) {
	for _, c := range []struct {
		name                      string
		queue                     bool
		send, receive, unexpected uint64
	}{
		{"called", false, 0, 0, 0},
		{"queued", true, 3, 3, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, a := start(t, script.Config{Queue: c.queue})
			r.Auto = true
			warm := r.Send(a, 10, 0, 0, 0)
			r.Recv(nil, 10, 0, 0, 0)
			inject(t, r, a, "EAGER_MSGRTM", "msg_id=0", "len=1")
			r.Run()
			require.Equal(t, 1, warm.Ends)

			hops := func(f func() *script.Op) uint64 {
				before := r.Shard.Delivered()
				op := f()
				r.Run()
				require.Equal(t, 1, op.Ends)
				return r.Shard.Delivered() - before
			}
			require.Equal(t, c.send, hops(func() *script.Op { return r.Send(a, 10, 0, 0, 0) }), "an eager send")
			require.Equal(t, c.receive, hops(func() *script.Op {
				got := r.Recv(nil, 10, 0, 0, 0)
				inject(t, r, a, "EAGER_MSGRTM", "msg_id=1", "len=1")
				return got
			}), "an eager receive")
			require.Equal(t, c.unexpected, hops(func() *script.Op {
				inject(t, r, a, "EAGER_MSGRTM", "msg_id=2", "len=1")
				r.Run()
				return r.Recv(nil, 10, 0, 0, 0)
			}), "a message that came before its receive")
		})
	}
}

// TestNoOperationIsFree: what peers ask for while no operation is free waits, in its order, and nothing of it is
// lost. Its senders are held back, or on a device that cannot do that reposting slows. A message that is given up
// meanwhile ends.
func TestNoOperationIsFree(t *testing.T) {
	const most = 32
	for name, holds := range map[string]bool{"held back": true, "slowed": false} {
		t.Run(name, func(t *testing.T) {
			cfg := set(settings.Settings{RecvQueue: 128})
			cfg.Settings.MaxOps = most
			r, a := start(t, script.Config{Info: device.Info{HoldsBack: holds}, Endpoint: cfg})
			b := addPeer(t, r, "b", 2)
			mem, err := r.Register("mem", 10, script.Rights{RemoteRead: true, RemoteWrite: true}, false)
			require.NoError(t, err)
			r.Auto = true
			send := func(x *script.Remote, line ...string) {
				p, err := r.Packet(x, line)
				require.NoError(t, err)
				require.True(t, r.Inject(x, p))
				r.Run()
			}
			for i := range most + 2 {
				send(a, "EAGER_MSGRTM", fmt.Sprint("msg_id=", i), fmt.Sprint("len=", i))
			}
			send(a, "MEDIUM_MSGRTM", "msg_id=34", "msg_length=100", "len=60")
			send(a, "LONGCTS_MSGRTM", "msg_id=35", "msg_length=1000", "send_id=7", "len=10")
			send(a, "MEDIUM_MSGRTM", "msg_id=34", "msg_length=100", "seg_offset=60", "len=40")
			send(a, "EAGER_MSGRTM", "msg_id=36", "len=36")
			send(a, "PEER_ERROR", "op_id=35", "ref_kind=msg_id")
			send(b, "EAGER_RTW", "rma_iov=mem+0:10", "len=10", "seed=3")
			send(b, "WRITE_RTA", "msg_id=0", "atomic_datatype=INT8", "atomic_op=SUM", "rma_iov=mem+0:1", "value=1")
			require.Zero(t, mem.Bytes()[0])
			require.EqualValues(t, 8, r.EP.Counters().NoRoom)
			require.Len(t, r.Events, 1)
			require.Equal(t, endpoint.MemoryPressure, r.Events[0].Kind)
			if holds {
				require.Len(t, r.QP.HeldBack, 2)
			}

			var got, want []int
			for i := range most + 4 {
				r.Recv(a, 1000, 0, 0, 0)
				r.Run()
				switch {
				case i < most+2:
					want = append(want, i)
				case i == most+2:
					want = append(want, 100)
				default:
					want = append(want, 36)
				}
			}
			for _, o := range r.Outcomes {
				require.NoError(t, o.Res.Err)
				got = append(got, o.Res.N)
			}
			require.Equal(t, want, got)
			require.Equal(t, script.Pattern(10, 3)[0]+1, mem.Bytes()[0])
			require.Len(t, r.Events, 2)
			require.Equal(t, endpoint.MemoryRelieved, r.Events[1].Kind)
			require.Empty(t, r.QP.HeldBack)
			calm(t, r)
		})
	}
}

// TestGivenUpWhenComplete: PEER_ERRORs for messages that are complete are in vain, however many there are, and those
// for messages in progress go on to be heard. A peer that sends more than it has sent messages is not.
func TestGivenUpWhenComplete(t *testing.T) {
	r, a := start(t, script.Config{})
	r.Auto = true
	long := func(id uint32) *script.Op {
		inject(t, r, a, "LONGCTS_MSGRTM", fmt.Sprint("msg_id=", id), "msg_length=1000", "send_id=7", "len=10")
		op := r.Recv(a, 1000, 0, 0, 0)
		r.Run()
		return op
	}
	giveUp := func(id uint32) {
		p := wire.PeerError{Form: wire.PeerErrorForm24, MsgID: id, OpID: wire.NoOpID, Emitter: wire.EmitterTX}
		require.True(t, r.Inject(a, p.Append(nil)))
		r.Run()
	}
	first, second := long(0), long(1)
	for id := range uint32(1500) {
		r.Recv(a, 1, 0, 0, 0)
		inject(t, r, a, "EAGER_MSGRTM", fmt.Sprint("msg_id=", id+2), "len=1")
		r.Run()
	}
	for id := range uint32(1500) {
		giveUp(id + 2)
	}
	giveUp(0)
	require.Equal(t, 1, first.Ends)
	for range 1100 {
		giveUp(2)
	}
	giveUp(1)
	require.Zero(t, second.Ends)
}

func fewOps(t *testing.T, most int) (*script.Rig, *script.Remote, func(x *script.Remote, line ...string)) {
	cfg := set(settings.Settings{RecvQueue: 128})
	cfg.Settings.MaxOps = most
	r, a := start(t, script.Config{Info: device.Info{HoldsBack: true}, Endpoint: cfg})
	r.Auto = true
	return r, a, func(x *script.Remote, line ...string) {
		p, err := r.Packet(x, line)
		require.NoError(t, err)
		require.True(t, r.Inject(x, p))
		r.Run()
	}
}

// TestGivenUpWhileStarved: a message of which the first packet got the last operation, and the second waits, is given up.
func TestGivenUpWhileStarved(t *testing.T) {
	r, a, send := fewOps(t, 32)
	for i := range 32 {
		send(a, "EAGER_MSGRTM", fmt.Sprint("msg_id=", i), "len=1")
	}
	send(a, "MEDIUM_MSGRTM", "msg_id=32", "msg_length=100", "len=40")
	send(a, "EAGER_MSGRTM", "msg_id=33", "len=3")
	send(a, "MEDIUM_MSGRTM", "msg_id=32", "msg_length=100", "seg_offset=40", "len=40")
	one := r.Recv(a, 1000, 0, 0, 0)
	r.Run()
	require.Equal(t, 1, one.Ends)
	var ops []*script.Op
	send(a, "PEER_ERROR", "op_id=32", "ref_kind=msg_id")
	for range 32 {
		ops = append(ops, r.Recv(a, 1000, 0, 0, 0))
		r.Run()
	}
	for i, o := range ops {
		require.Equal(t, 1, o.Ends, "receive %d", i)
	}
}

// TestBegunGoesOn: a message that has begun waits for none that has no operation.
func TestBegunGoesOn(t *testing.T) {
	r, a, send := fewOps(t, 32)
	for i := range 32 {
		send(a, "EAGER_TAGRTM", fmt.Sprint("msg_id=", i), "tag=1", "len=1")
	}
	send(a, "MEDIUM_TAGRTM", "msg_id=32", "tag=2", "msg_length=100", "len=60")
	send(a, "EAGER_TAGRTM", "msg_id=33", "tag=3", "len=3")
	send(a, "MEDIUM_TAGRTM", "msg_id=32", "tag=2", "msg_length=100", "seg_offset=60", "len=40")
	two := r.Recv(a, 1000, ope.Tagged, 2, 0)
	r.Run()
	one := r.Recv(a, 1000, ope.Tagged, 1, 0)
	r.Run()
	require.Equal(t, 1, one.Ends)
	r.Advance(60e9)
	require.Equal(t, 1, two.Ends)
}

// TestAnswersHoldUpNoMessage: a read that waits for a free txe holds up no message, nor a write.
func TestAnswersHoldUpNoMessage(t *testing.T) {
	cfg := set(settings.Settings{RecvQueue: 128})
	cfg.Settings.MaxOps = 32
	r, a := start(t, script.Config{Info: device.Info{HoldsBack: true}, Endpoint: cfg})
	b := addPeer(t, r, "b", 2)
	mem, err := r.Register("mem", 10, script.Rights{RemoteRead: true, RemoteWrite: true}, false)
	require.NoError(t, err)
	for range 32 {
		r.Send(b, 10, 0, 0, 0)
		r.Run()
	}
	send := func(x *script.Remote, line ...string) {
		p, err := r.Packet(x, line)
		require.NoError(t, err)
		require.True(t, r.Inject(x, p))
		r.Run()
	}
	one := r.Recv(a, 1000, 0, 0, 0)
	two := r.Recv(a, 1000, 0, 0, 0)
	r.Run()
	send(a, "EAGER_MSGRTM", "msg_id=0", "len=1")
	require.Equal(t, 1, one.Ends)
	send(a, "SHORT_RTR", "rma_iov=mem+0:10", "msg_length=10")
	send(a, "EAGER_RTW", "rma_iov=mem+0:10", "len=10", "seed=3")
	send(a, "EAGER_MSGRTM", "msg_id=1", "len=1")
	r.Advance(5e9)
	require.Equal(t, 1, two.Ends)
	require.NotZero(t, mem.Bytes()[0])
}

// TestStarvedOfPeerThatIsAway: a write that waited is carried out although its peer has failed meanwhile.
func TestStarvedOfPeerThatIsAway(t *testing.T) {
	r, a, send := fewOps(t, 32)
	mem, err := r.Register("mem", 10, script.Rights{RemoteRead: true, RemoteWrite: true}, false)
	require.NoError(t, err)
	b := addPeer(t, r, "b", 2)
	for i := range 32 {
		send(b, "EAGER_MSGRTM", fmt.Sprint("msg_id=", i), "len=1")
	}
	send(a, "EAGER_RTW", "rma_iov=mem+0:10", "len=10", "seed=3")
	require.Zero(t, mem.Bytes()[0])
	r.Auto = false
	r.Send(a, 10, 0, 0, 0)
	r.Run()
	for _, s := range r.QP.Flying() {
		r.QP.Complete(s, device.StatusUnresponsive)
	}
	r.Run()
	r.Recv(b, 10, 0, 0, 0)
	r.Run()
	r.Advance(5e6)
	require.NotZero(t, mem.Bytes()[0])
}
