package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/devicetest"
	"github.com/efactor/efactor/actors/device/sim"
)

// factory makes fabrics of cfg for the suite.
func factory(cfg sim.Config) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric {
		f, err := sim.New(cfg)
		require.NoError(tb, err)
		df := &devicetest.Fabric{Shuffles: !cfg.InOrder, Single: cfg.Virtual, ReportsGone: cfg.ReportGone}
		var devs []*sim.Device
		for range devices {
			d, err := f.OpenDevice(sim.DeviceConfig{})
			require.NoError(tb, err)
			devs = append(devs, d)
			df.Devices = append(df.Devices, d)
		}
		if cfg.Virtual {
			df.Progress = func() {
				if !f.Step() { // resends wait, for the owners that do not arm
					f.AdvanceTo(f.Clock().Now().Add(20 * time.Microsecond))
				}
			}
		}
		df.Kill = func(i int) { devs[i].Kill() }
		return df
	}
}

var fabrics = []struct {
	name string
	cfg  sim.Config
}{
	{"virtual", sim.Config{Virtual: true, ReportGone: true}},
	{"virtual,late", sim.Config{Virtual: true, ReportGone: true, CopyLate: true, Delay: time.Microsecond, Jitter: 9 * time.Microsecond}},
	{"virtual,order", sim.Config{Virtual: true, InOrder: true}},
	{"immediate", sim.Config{InOrder: true, ReportGone: true}},
	{"shuffled", sim.Config{ReportGone: true}},
	{"delayed", sim.Config{Delay: 2 * time.Microsecond, Jitter: 5 * time.Microsecond}},
}

func TestConformance(t *testing.T) {
	for i, fab := range fabrics {
		t.Run(fab.name, func(t *testing.T) {
			fab.cfg.Seed = uint64(i) + 1
			devicetest.Run(t, factory(fab.cfg))
		})
	}
}

func BenchmarkPacket(b *testing.B) {
	for _, fab := range fabrics {
		b.Run(fmt.Sprintf("fabric=%s", fab.name), func(b *testing.B) {
			devicetest.Benchmark(b, factory(fab.cfg))
		})
	}
}
