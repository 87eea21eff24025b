package efa_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
)

// TestSettingsThatDepend walks the table of docs/settings.md: each combination that does not fit is refused, or
// what is in force is derived.
func TestSettingsThatDepend(t *testing.T) {
	protocol := func(p efa.ProtocolConfig) efa.EndpointConfig { return efa.EndpointConfig{Protocol: p} }
	refused := map[string][]efa.EndpointConfig{
		"Protocol.Refill":      {protocol(efa.ProtocolConfig{RecvQueue: 8, Refill: 5}), protocol(efa.ProtocolConfig{Refill: 129})},
		"Protocol.SendQueue":   {protocol(efa.ProtocolConfig{SendQueue: 1 << 30})},
		"Protocol.RecvQueue":   {protocol(efa.ProtocolConfig{RecvQueue: 1 << 30})},
		"Protocol.ReadSegment": {protocol(efa.ProtocolConfig{ReadSegment: 50_001})},
		"TxDepth":              {{TxDepth: 1 << 30}},
		"RxDepth":              {{RxDepth: 1 << 30}},
		"Order":                {{Order: efa.SendAfterWrite, Direct: true}, {Order: efa.SendAfterWrite, Datagram: true}},
		"Target":               {{Target: efa.CapRead, Direct: true}, {Target: efa.CapRead, Datagram: true}},
		"RMAEvents":            {{RMAEvents: true, Direct: true}, {RMAEvents: true, Datagram: true}},
		"RemoteReadCounter":    {{RemoteReadCounter: new(efa.Counter), Direct: true}, {RemoteReadCounter: new(efa.Counter), Datagram: true}},
		"Arrivals":             {{Arrivals: &efa.ArrivalsConfig{}, Datagram: true}},
	}
	type derivation struct {
		cfg  efa.ProtocolConfig
		of   func(efa.ProtocolConfig) time.Duration
		want time.Duration
	}
	probe := func(p efa.ProtocolConfig) time.Duration { return p.ProbeAfter }
	longest := func(p efa.ProtocolConfig) time.Duration { return p.RNRMax }
	first := func(p efa.ProtocolConfig) time.Duration { return p.RNRInitial }
	derived := map[string][]derivation{
		"Protocol.ProbeAfter": {
			{efa.ProtocolConfig{PeerTimeout: 2 * time.Second}, probe, time.Second / 2},
			{efa.ProtocolConfig{PeerTimeout: 2 * time.Second, ProbeAfter: time.Minute}, probe, time.Second / 2},
			{efa.ProtocolConfig{ProbeAfter: time.Hour}, probe, 2500 * time.Millisecond},
			{efa.ProtocolConfig{PeerTimeout: 4 * time.Minute, ProbeAfter: time.Minute}, probe, time.Minute},
		},
		"Protocol.RNRMax": {
			{efa.ProtocolConfig{PeerTimeout: time.Second}, longest, time.Second / 4},
			{efa.ProtocolConfig{PeerTimeout: time.Second, RNRMax: time.Hour}, longest, time.Second / 4},
			{efa.ProtocolConfig{RNRMax: time.Millisecond}, longest, time.Millisecond},
		},
		"Protocol.RNRInitial": {
			{efa.ProtocolConfig{RNRInitial: time.Minute}, first, time.Second},
			{efa.ProtocolConfig{RNRInitial: time.Minute, PeerTimeout: time.Second}, first, time.Second / 4},
			{efa.ProtocolConfig{RNRInitial: time.Millisecond}, first, time.Millisecond},
		},
		"TCP.Timeout": nil, // actors/device/tcp.TestSilence
	}
	require.Equal(t, tcp.DefaultTimeout, 10*time.Second, "the default of PeerTimeout, too")

	dev, err := newFabric(t, sim.Config{}).OpenDevice(sim.DeviceConfig{RDMARead: true, MaxRDMA: 50_000})
	require.NoError(t, err)
	dom := domainOn(t, dev, efa.DomainConfig{})
	page, err := os.ReadFile("../../docs/settings.md")
	require.NoError(t, err)
	name := regexp.MustCompile("`([A-Za-z.]+)`")
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.Contains(cells[1], "`") {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
			rows++
			switch strings.TrimSpace(cells[3]) {
			case "refused":
				require.Contains(t, refused, m[1])
				for _, cfg := range refused[m[1]] {
					_, err := dom.NewEndpoint(cfg)
					require.Error(t, err, m[1])
					require.ErrorContains(t, err, m[1])
				}
			case "derived":
				require.Contains(t, derived, m[1])
				for _, d := range derived[m[1]] {
					got := newEndpoint(t, dom, protocol(d.cfg)).ep.Config().Protocol
					require.Equal(t, d.want, d.of(got), "%s of %+v", m[1], d.cfg)
				}
			default:
				t.Errorf("%s: neither refused nor derived", m[1])
			}
		}
	}
	require.Equal(t, len(refused)+len(derived), rows)
}
