package endpoint_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/script"
)

// A panic ends the actor's operation, peer or endpoint, and nothing else.

// panicsIn makes the outcome of an operation panic in the actor that gives it.
func panicsIn(r *script.Rig, op *script.Op) {
	r.OnDone = func(done *script.Op) {
		if done == op {
			panic("the sink of " + op.Name)
		}
	}
}

func completeAll(r *script.Rig) {
	r.Auto = true
	r.Run()
}

func TestPanicInSend(t *testing.T) {
	for _, n := range []int{10, 2000, 5000} {
		r, a := start(t, script.Config{Endpoint: set(settings.Settings{MaxMedium: 3000})})
		before, bad, after := r.Send(a, 1, 0, 0, 0), r.Send(a, n, 0, 0, 0), r.Send(a, 2, 0, 0, 0)
		panicsIn(r, bad)
		r.Run()
		if n == 5000 {
			inject(t, r, a, "CTS", "send_id=1", "recv_id=3", "recv_length=4028")
		}
		completeAll(r)
		require.EqualValues(t, 1, r.Shard.Stats().Failures)
		for _, op := range []*script.Op{before, bad, after} {
			require.Equal(t, 1, op.Ends, "%d bytes: %s", n, op.Name)
		}
		require.Empty(t, r.Events, "the peer lives on")
		require.Equal(t, []string{"posted=0 unexpected=0 held=0"}, r.EP.Operations(), "the operation is free again")
		free, depth := r.EP.Room()
		require.Equal(t, depth, free)
		r.OnDone = nil
		again := r.Send(a, 10, 0, 0, 0)
		r.Run()
		require.Equal(t, 1, again.Ends)
	}
}

func TestPanicInReceive(t *testing.T) {
	r, a := start(t, script.Config{})
	bad, next := r.Recv(nil, 10, 0, 0, 0), r.Recv(nil, 10, 0, 0, 0)
	panicsIn(r, bad)
	inject(t, r, a, "EAGER_MSGRTM", "msg_id=0", "len=1")
	inject(t, r, a, "EAGER_MSGRTM", "msg_id=1", "len=2")
	completeAll(r)
	require.EqualValues(t, 1, r.Shard.Stats().Failures)
	require.Equal(t, 1, bad.Ends)
	require.Equal(t, 1, next.Ends)
	require.Empty(t, r.Events)
	require.Equal(t, []string{"posted=0 unexpected=0 held=0"}, r.EP.Operations())
	r.EP.GiveBackSlots()
	require.Equal(t, r.QP.RecvSlots(), r.QP.Posted())
}

func TestPanicInPeer(t *testing.T) {
	r, a := start(t, script.Config{Endpoint: set(settings.Settings{MaxMedium: -1})})
	b := addPeer(t, r, "b", 2)
	long, directed, anyone := r.Send(a, 5000, 0, 0, 0), r.Recv(a, 10, 0, 0, 0), r.Recv(nil, 10, 0, 0, 0)
	r.Run()
	r.EP.PoisonPeers()
	inject(t, r, a, "CTS", "send_id=0", "recv_length=10")
	completeAll(r)
	require.EqualValues(t, 1, r.Shard.Stats().Failures)
	require.Len(t, r.Events, 1)
	require.Equal(t, endpoint.PeerFailed, r.Events[0].Kind)
	require.Equal(t, a.Handle, r.Events[0].Handle)
	require.ErrorIs(t, r.Events[0].Err, peer.ErrPeerFailed)
	require.Equal(t, 1, long.Ends)
	require.Equal(t, 1, directed.Ends)
	require.Zero(t, anyone.Ends)

	// The others don't notice.
	sent := r.Send(b, 10, 0, 0, 0)
	inject(t, r, b, "EAGER_MSGRTM", "msg_id=0", "len=1")
	r.Run()
	require.Equal(t, 1, sent.Ends)
	require.Equal(t, 1, anyone.Ends)
	refused := r.Send(a, 1, 0, 0, 0)
	r.Run()
	require.ErrorIs(t, r.Outcomes[len(r.Outcomes)-1].Res.Err, peer.ErrPeerFailed)
	require.Equal(t, 1, refused.Ends)
}

// TestPanicInDriver: a driver that panics, in whatever call, ends the endpoint with an
// event, and all operations, and is not called again but to be closed.
func TestPanicInDriver(t *testing.T) {
	for _, call := range []string{"PostSend", "PostRecv", "Doorbell", "Poll", "CreateAH", "Close"} {
		t.Run(call, func(t *testing.T) {
			r, a := start(t, script.Config{})
			sent := r.Send(a, 10, 0, 0, 0)
			directed, anyone := r.Recv(a, 10, ope.Tagged, 7, 0), r.Recv(nil, 10, ope.Tagged, 7, 0)
			r.Run()
			r.QP.Poison(call)
			var more []*script.Op
			switch call {
			case "CreateAH":
				b := script.NewRemote("b", 2, 1, 0xa2)
				r.AddRemote(b)
				r.Insert(b)
				more = append(more, r.Send(b, 10, 0, 0, 0))
			case "PostRecv": // receive slots go back in batches
				for i := range 20 {
					inject(t, r, a, "EAGER_MSGRTM", fmt.Sprint("msg_id=", i), "len=1")
				}
			case "Close":
				r.QP.Fail(device.StatusQPInternal)
			default:
				more = append(more, r.Send(a, 10, 0, 0, 0), r.Send(a, 5000, 0, 0, 0))
			}
			r.Run()
			require.True(t, r.EP.Ended())
			failed := 0
			for _, e := range r.Events {
				if e.Kind == endpoint.DeviceFailed {
					failed++
					require.ErrorIs(t, e.Err, errno.ErrIO)
				}
			}
			require.Equal(t, 1, failed)
			require.True(t, r.QP.Closed())
			for _, op := range append(more, sent, directed, anyone) {
				require.Equal(t, 1, op.Ends, op.Name)
			}
			late := r.Send(a, 1, 0, 0, 0)
			r.Run()
			require.Equal(t, 1, late.Ends)
			for _, o := range r.Outcomes {
				assert.Error(t, o.Res.Err, o.Op.Name)
			}
			if call == "Close" {
				require.ErrorContains(t, r.Close(), "a bug in Close")
			}
		})
	}
}

// TestPanicInEndpoint: a panic in the endpoint itself ends it as a failed device
// does. Nothing waits forever, and the request that panicked does not run again.
func TestPanicInEndpoint(t *testing.T) {
	r, a := start(t, script.Config{Endpoint: set(settings.Settings{MaxMedium: -1})})
	long := r.Send(a, 5000, 0, 0, 0)
	posted := r.Recv(nil, 10, 0, 0, 0)
	inject(t, r, a, "LONGCTS_MSGRTM", "msg_id=0", "msg_length=9000", "send_id=5", "len=10")
	r.Run()
	runs := 0
	r.EP.Submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: func() {
		runs++
		panic("a bug")
	}}})
	late := r.Send(a, 1, 0, 0, 0)
	r.Run()
	require.Equal(t, 1, runs)
	require.True(t, r.EP.Ended())
	require.True(t, r.QP.Closed())
	require.Len(t, r.Events, 1)
	require.Equal(t, endpoint.DeviceFailed, r.Events[0].Kind)
	for _, op := range []*script.Op{long, posted, late} {
		require.Equal(t, 1, op.Ends, op.Name)
	}
	for _, o := range r.Outcomes {
		require.ErrorIs(t, o.Res.Err, errno.ErrIO)
	}
}

// TestQueuePairEnds: a device that fails ends the endpoint, with an event, and every
// operation.
func TestQueuePairEnds(t *testing.T) {
	r, a := start(t, script.Config{})
	send, recv := r.Send(a, 10, 0, 0, 0), r.Recv(nil, 10, 0, 0, 0)
	r.Run()
	r.QP.Fail(device.StatusQPInternal)
	r.Run()
	require.True(t, r.EP.Ended())
	require.True(t, r.QP.Closed())
	require.Len(t, r.Events, 1)
	require.Equal(t, endpoint.DeviceFailed, r.Events[0].Kind)
	require.ErrorContains(t, r.Events[0].Err, device.StatusQPInternal.String())
	require.Equal(t, []int{1, 1}, []int{send.Ends, recv.Ends})
	for _, o := range r.Outcomes {
		require.ErrorIs(t, o.Res.Err, errno.ErrIO)
	}
}

// TestPanicNamesPeer: what the log says of a peer's actor has the peer's handle, name and address,
// as errors have them.
func TestPanicNamesPeer(t *testing.T) {
	var log bytes.Buffer
	cfg := set(settings.Settings{MaxMedium: -1})
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	r, a := start(t, script.Config{Endpoint: cfg})
	r.Book.SetName(a.Handle, "rank 3 on node7")
	long := r.Send(a, 5000, 0, 0, 0)
	r.Run()
	r.EP.PoisonPeers()
	inject(t, r, a, "CTS", "send_id=0", "recv_length=10")
	completeAll(r)
	require.Equal(t, 1, long.Ends)
	line, _, _ := strings.Cut(log.String()[strings.Index(log.String(), "panic in an actor"):], "\n")
	require.Contains(t, line, fmt.Sprintf(" peer=%d ", a.Handle))
	require.Contains(t, line, ` name="rank 3 on node7" `)
	require.Contains(t, line, "address="+a.Addr.URI("script"))
}

// TestSnapshotNamesPeer: peers and operations have the peer's name, and its address as
// efa.Address has it.
func TestSnapshotNamesPeer(t *testing.T) {
	r, a := start(t, script.Config{Endpoint: set(settings.Settings{MaxMedium: -1})})
	r.Book.SetName(a.Handle, "rank 3 on node7")
	r.Send(a, 5000, 0, 0, 0)
	r.Recv(a, 10, 0, 0, 0)
	r.Recv(nil, 10, 0, 0, 0)
	r.Run()
	s := r.EP.ReadSnapshot(10)
	require.Len(t, s.Peers, 1)
	require.Equal(t, "rank 3 on node7", s.Peers[0].Name)
	require.Equal(t, a.Addr.URI("script"), s.Peers[0].Address)
	names := map[string]int{}
	for _, o := range s.Operations {
		names[o.PeerName+" at "+o.Peer]++
	}
	require.Equal(t, map[string]int{"rank 3 on node7 at " + a.Addr.URI("script"): 2, " at ": 1}, names)
}
