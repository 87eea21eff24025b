package multi_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/internal/devicetest"
)

// BenchmarkPacket is the cost of an idle second device for a packet of the first.
func BenchmarkPacket(b *testing.B) {
	for _, c := range []struct {
		name   string
		second func(tb testing.TB) device.Device
	}{
		{"shm", nil},
		{"shm,sim", func(tb testing.TB) device.Device {
			f, err := sim.New(sim.Config{InOrder: true})
			require.NoError(tb, err)
			d, err := f.OpenDevice(sim.DeviceConfig{})
			require.NoError(tb, err)
			return d
		}},
		{"shm,tcp", func(tb testing.TB) device.Device {
			d, err := tcp.Open(tcp.Config{})
			require.NoError(tb, err)
			return d
		}},
	} {
		b.Run("devices="+c.name, func(b *testing.B) {
			devicetest.Benchmark(b, func(tb testing.TB, n int) *devicetest.Fabric {
				f := &devicetest.Fabric{OneGID: true}
				dir := filepath.Join(tb.TempDir(), "fabric")
				for range n {
					d, err := shm.Open(shm.Config{Dir: dir})
					require.NoError(tb, err)
					if c.second != nil {
						d, err = multi.Open(d, c.second(tb))
						require.NoError(tb, err)
					}
					tb.Cleanup(func() { require.NoError(tb, d.Close()) })
					f.Devices = append(f.Devices, d)
				}
				return f
			})
		})
	}
}
