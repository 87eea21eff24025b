package efa_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestSettings: every setting is listed, with its type, its default and what is in force.
func TestSettings(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	s := newEndpoint(t, dom, efa.EndpointConfig{Protocol: efa.ProtocolConfig{Credits: 77, PeerTimeout: time.Minute, NoRDMARead: true}})
	got := map[string]efa.Setting{}
	for _, x := range s.ep.Settings() {
		require.NotContains(t, got, x.Name)
		require.Equal(t, x.Type, reflect.TypeOf(x.Default).String())
		require.Equal(t, x.Type, reflect.TypeOf(x.Value).String())
		got[x.Name] = x
	}
	exported := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[efa.ProtocolConfig]()) {
		if f.IsExported() {
			exported++
			require.Contains(t, got, f.Name)
		}
	}
	require.Len(t, got, exported)
	require.Equal(t, efa.Setting{Name: "Credits", EFA: "FI_EFA_TX_MIN_CREDITS", Type: "int", Default: 32, Value: 77}, got["Credits"])
	require.Equal(t, efa.Setting{Name: "PeerTimeout", Type: "time.Duration", Default: 10 * time.Second, Value: time.Minute}, got["PeerTimeout"])
	require.Equal(t, []any{false, true}, []any{got["NoRDMARead"].Default, got["NoRDMARead"].Value})
	require.Equal(t, []any{8, 8}, []any{got["Refill"].Default, got["Refill"].Value})
}
