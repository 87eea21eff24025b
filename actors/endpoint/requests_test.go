package endpoint_test

import (
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

// TestTruncatedPackets: a packet of every type, cut at every length, is counted
// and does nothing. An eager packet that keeps its header is a shorter message.
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
		{"DC_EAGER_TAGRTM", "connid"},
		{"DC_MEDIUM_TAGRTM", "connid"},
		{"CTS", "recv_length=5"},
		{"CTSDATA", "connid"},
		{"EOR"},
		{"HANDSHAKE", "features=200", "connid", "host_id=1", "device_version=1", "p2p", "user_recv_qp"},
	} {
		t.Run(line[0], func(t *testing.T) {
			r, a := start(t, script.Config{})
			whole, err := a.Packet(line)
			require.NoError(t, err)
			c := r.EP.Counters()
			for n := range len(whole) {
				before := *c
				require.True(t, r.Inject(a, whole[:n]))
				r.Run()
				dropped := c.BadShort + c.BadLength + c.StaleMsgID -
					before.BadShort - before.BadLength - before.StaleMsgID
				require.EqualValues(t, 1, dropped, "%d of %d bytes", n, len(whole))
			}
			require.Empty(t, r.Outcomes)
			require.LessOrEqual(t, len(r.Events), 8)
			for _, ev := range r.Events {
				require.Equal(t, endpoint.BadPacket, ev.Kind)
			}
			calm(t, r)
			// One turn was spent where the msg_id could be read, else none.
			next := "msg_id=0"
			if c.Malformed > 0 {
				next = "msg_id=1"
			}
			op := r.Recv(a, 10, 0, 0, 0)
			inject(t, r, a, "EAGER_MSGRTM", next, "len=1")
			r.Run()
			require.Equal(t, 1, op.Ends)
		})
	}
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
