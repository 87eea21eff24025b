package efa_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/directtest"
)

// TestDirect: endpoints without the protocol on all devices of software.
func TestDirect(t *testing.T) {
	for name, dev := range devices {
		t.Run("sim "+name, func(t *testing.T) {
			directtest.Run(t, func() func(*testing.T) efa.Device {
				var f *sim.Fabric
				var of *testing.T
				return func(t *testing.T) efa.Device {
					if of != t {
						f, of = newFabric(t, sim.Config{}), t
					}
					return closed(t)(f.OpenDevice(dev))
				}
			}())
		})
	}
	t.Run("shm", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "fabric")
		directtest.Run(t, func(t *testing.T) efa.Device { return closed(t)(shm.Open(shm.Config{Dir: dir})) })
	})
	t.Run("tcp", func(t *testing.T) {
		directtest.Run(t, func(t *testing.T) efa.Device { return closed(t)(tcp.Open(tcp.Config{})) })
	})
}

// closed gives a device that closes with the test.
func closed(t *testing.T) func(efa.Device, error) efa.Device {
	return func(d efa.Device, err error) efa.Device {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
}
