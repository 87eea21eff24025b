//go:build linux

package efa_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// openFor is town.open for an endpoint whose address vector has settings.
func (w *town) openFor(cfg efa.AddressVectorConfig) *side {
	w.t.Helper()
	near, err := shm.Open(shm.Config{Dir: w.dir})
	require.NoError(w.t, err)
	dev, err := efa.JoinDevices(near, w.far())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, dev.Close()) })
	dom := domainOn(w.t, dev, efa.DomainConfig{})
	av, err := dom.OpenAddressVector(cfg)
	require.NoError(w.t, err)
	return newEndpoint(w.t, dom, efa.EndpointConfig{AV: av})
}

// TestNoSharedMemory: an endpoint whose vector forbids shared memory and one whose does not
// reach each other by the other device, and know each other by their handles.
func TestNoSharedMemory(t *testing.T) {
	w := &town{t: t, dir: filepath.Join(t.TempDir(), "fabric"), far: farKinds["sim"](t)}
	a, b, c := w.openFor(efa.AddressVectorConfig{NoSharedMemory: true}), w.open(false, efa.ProgressAuto), w.open(false, efa.ProgressAuto)
	_, ok := a.ep.Address().Raw("shm")
	require.False(t, ok)
	ctx := testContext(t)
	meet := func(x, y *side, want string) {
		t.Helper()
		for _, p := range [][2]*side{{x, y}, {y, x}} {
			var err error
			p[0].peer, err = p[0].ep.AddressVector().Insert(p[1].ep.Address())
			require.NoError(t, err)
			name, err := p[0].ep.AddressVector().Device(p[0].peer)
			require.NoError(t, err)
			require.Equal(t, want, kindOf(name))
		}
		for _, p := range [][2]*side{{x, y}, {y, x}} {
			go func() { _ = p[0].ep.Send(ctx, p[0].peer, []byte("x")) }() // the receiver tells
			m, err := p[1].ep.Recv(ctx, make([]byte, 8))
			require.NoError(t, err)
			require.Equal(t, p[1].peer, m.From)
		}
	}
	meet(a, b, "sim")
	meet(b, c, "shm")
}

// TestLocalAndRemoteOnly: such a vector refuses the others, by whatever device they are
// reached.
func TestLocalAndRemoteOnly(t *testing.T) {
	w := &town{t: t, dir: filepath.Join(t.TempDir(), "fabric"), far: farKinds["sim"](t)}
	near, far := w.open(false, efa.ProgressAuto), w.open(true, efa.ProgressAuto)
	local := w.openFor(efa.AddressVectorConfig{LocalOnly: true}).ep.AddressVector()
	remote := w.openFor(efa.AddressVectorConfig{RemoteOnly: true}).ep.AddressVector()
	hs, err := local.InsertAll(near.ep.Address(), far.ep.Address())
	require.ErrorIs(t, err, efa.ErrAddrNotAvail)
	require.Equal(t, []efa.Addr{0, efa.NoAddr}, hs)
	hs, err = remote.InsertAll(near.ep.Address(), far.ep.Address())
	require.ErrorIs(t, err, efa.ErrAddrNotAvail)
	require.Equal(t, []efa.Addr{efa.NoAddr, 0}, hs)
}

// TestAddressVectorConfig: settings that leave nobody are refused.
func TestAddressVectorConfig(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	_, err := dom.OpenAddressVector(efa.AddressVectorConfig{LocalOnly: true, RemoteOnly: true})
	require.ErrorIs(t, err, efa.ErrInvalid)
	_, err = dom.OpenAddressVector(efa.AddressVectorConfig{NoSharedMemory: true})
	require.NoError(t, err, "there is none in any case")
	dev, err := shm.Open(shm.Config{Dir: filepath.Join(t.TempDir(), "fabric")})
	require.NoError(t, err)
	defer dev.Close()
	_, err = domainOn(t, dev, efa.DomainConfig{}).OpenAddressVector(efa.AddressVectorConfig{NoSharedMemory: true})
	require.ErrorIs(t, err, efa.ErrInvalid)
}
