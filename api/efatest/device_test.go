package efatest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// TestReceiveGate: senders meet RNR while the gate is shut and its device's buffers are
// full, and all that they sent arrives after it was opened.
func TestReceiveGate(t *testing.T) {
	fabric, err := efatest.NewFabric(efatest.FabricConfig{})
	require.NoError(t, err)
	open := func(wrap func(efa.Device) efa.Device) (*efa.Endpoint, *efa.AddressVector, *efa.Queue) {
		dev, err := fabric.OpenDevice(efatest.DeviceConfig{})
		require.NoError(t, err)
		fab, err := efa.Open(efa.Config{Device: wrap(dev)})
		require.NoError(t, err)
		dom, err := fab.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		av := dom.NewAddressVector()
		queue, err := dom.NewQueue(0)
		require.NoError(t, err)
		ep, err := dom.NewEndpoint(efa.EndpointConfig{
			AV: av, SendQueue: queue, Protocol: efa.ProtocolConfig{RecvQueue: 16, Credits: 8},
		})
		require.NoError(t, err)
		require.NoError(t, ep.Enable(t.Context()))
		t.Cleanup(func() { _ = ep.Close() })
		return ep, av, queue
	}
	var gate *efatest.ReceiveGate
	a, av, sent := open(func(dev efa.Device) efa.Device { return dev })
	b, _, _ := open(func(dev efa.Device) efa.Device {
		gate = efatest.NewReceiveGate(dev)
		return gate
	})
	to, err := av.Insert(b.Address())
	require.NoError(t, err)

	gate.Hold()
	const messages = 40
	for range messages {
		_, err := a.PostSend(&efa.SendReq{To: to, Buf: []byte("one of many")})
		require.NoError(t, err)
	}
	done := make([]efa.Completion, messages)
	for n := 0; ; {
		n += max(sent.TryRead(done), 0)
		require.Less(t, n, messages, "all were sent through a gate that is shut")
		stats, err := a.Stats(t.Context())
		require.NoError(t, err)
		if stats["Queue.RNR"] > 0 {
			break
		}
	}
	gate.Release()
	for range messages {
		_, err := b.Recv(t.Context(), make([]byte, 100))
		require.NoError(t, err)
	}
}
