package efa_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestConfigInForce: what is in force can be read back, and made again from that.
func TestConfigInForce(t *testing.T) {
	f := newFabric(t, sim.Config{})
	dev, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, MaxRDMA: 50_000})
	require.NoError(t, err)
	dom := domainOn(t, dev, efa.DomainConfig{})
	s := newEndpoint(t, dom, efa.EndpointConfig{TxDepth: 7, Protocol: efa.ProtocolConfig{MinRead: 12345, PeerTimeout: time.Minute}})
	c := s.ep.Config()
	p := c.Protocol
	require.Equal(t, []int{7, 16384, 256}, []int{c.TxDepth, c.RxDepth, c.EventBacklog})
	require.Equal(t, efa.Transmitted, c.Level)
	raw, ok := s.ep.Address().Raw("sim")
	require.True(t, ok)
	require.Equal(t, raw.QPN(), c.QPN)
	l := dom.Limits()
	require.Equal(t, []int{256, 256, l.MaxMedium, 12345, l.MinReadWrite, 50_000, 0, 32, 16, 3, 1 << 20}, []int{
		p.SendQueue, p.RecvQueue, p.MaxMedium, p.MinRead, p.MinReadWrite, p.ReadSegment, p.RuntSize, p.Credits, p.RecvWindow,
		p.RNRRetry, p.DetachLimit,
	})
	require.Equal(t, []time.Duration{time.Second, time.Second, time.Minute}, []time.Duration{p.RNRMax, p.ProbeAfter, p.PeerTimeout})
	require.Equal(t, []int64{256 << 20, 1 << 30}, []int64{p.PeerMemory, p.TotalMemory})

	c.QPN = 0
	again := newEndpoint(t, dom, c).ep.Config()
	again.QPN = 0
	require.Equal(t, c, again)

	none := efa.EndpointConfig{AV: s.av, Protocol: efa.ProtocolConfig{RNRRetry: -1, MaxMedium: -1, MinRead: -1}}
	ep, err := dom.NewEndpoint(none)
	require.NoError(t, err)
	require.Equal(t, none, ep.Config(), "before Enable it is what was given")
	require.NoError(t, ep.Enable(testContext(t)))
	p = ep.Config().Protocol
	require.Equal(t, []int{-1, -1, -1}, []int{p.RNRRetry, p.MaxMedium, p.MinRead})
	require.NoError(t, ep.Close())
}
