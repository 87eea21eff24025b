package endpoint_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/script"
)

// TestNoDeathUnasked: a process that was busy for longer than PeerTimeout asks the peer first, and gives it a
// quarter of PeerTimeout to answer.
func TestNoDeathUnasked(t *testing.T) {
	r, err := script.Start(script.Config{Endpoint: set(settings.Settings{PeerTimeout: 400 * time.Millisecond, ProbeAfter: 100 * time.Millisecond})})
	require.NoError(t, err)
	c := r.EP.Counters()
	x := script.NewRemote("x", 1, 7, 0x100)
	r.AddRemote(x)
	r.Insert(x)
	for _, answers := range []bool{true, false} {
		r.Recv(x, 10, 0, 1, 0)
		r.Run()
		complete(r)
		probes := c.Probes
		r.Clock.Set(r.Clock.Now().Add(500 * time.Millisecond)) // the shard was not run for that long
		r.Run()
		require.Equal(t, probes+1, c.Probes)
		require.Zero(t, c.PeersFailed)
		r.Advance(90 * time.Millisecond)
		require.Zero(t, c.PeersFailed)
		if answers {
			inject(t, r, x, "EAGER_MSGRTM", "msg_id=0", "len=1", "raw_addr")
		}
		r.Advance(50 * time.Millisecond)
		require.Equal(t, answers, c.PeersFailed == 0)
	}
	require.Equal(t, endpoint.PeerFailed, r.Events[len(r.Events)-1].Kind)
	require.NoError(t, r.Close())
}

// TestWriteAfterFailure: a write of a peer's that comes in the turn in which it fails takes it back only when its
// operations have heard of the failure. What is sent to it until then ends with an error.
func TestWriteAfterFailure(t *testing.T) {
	r, err := script.Start(script.Config{Info: device.Info{RDMAWrite: true, UnsolicitedWrite: true}})
	require.NoError(t, err)
	x := script.NewRemote("x", 1, 7, 0x100)
	r.AddRemote(x)
	r.Insert(x)
	r.Send(x, 30, 0, 1, 0)
	r.Run()
	for _, s := range r.QP.Flying() {
		r.QP.Complete(s, device.StatusUnresponsive)
	}
	require.True(t, r.QP.Written(x.Addr.GID(), x.Addr.QPN(), 10, 7))
	r.Run()
	require.Error(t, r.Outcomes[0].Res.Err)
	c := r.EP.Counters()
	require.NotZero(t, c.PeersReturned)
	require.Zero(t, c.Violations)
	require.NoError(t, r.Close())
}
