package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/internal/devicetest"
	"github.com/efactor/efactor/internal/testenv"
)

// factory makes fabrics of cfg for the suite, with devices of dc.
func factory(cfg sim.Config, dc sim.DeviceConfig) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric {
		f, err := sim.New(cfg)
		require.NoError(tb, err)
		df := &devicetest.Fabric{
			Shuffles: !cfg.InOrder, Single: cfg.Virtual,
			ReportsGone: cfg.ReportGone, ReportsRefused: true,
		}
		var devs []*sim.Device
		for range devices {
			d, err := f.OpenDevice(dc)
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
	{"delayed", sim.Config{Delay: 2 * time.Microsecond, Jitter: 100 * time.Microsecond}},
}

// abilities that devices can have: the whole suite runs with each of the first two,
// what depends on RDMA with all.
var abilities = []struct {
	name  string
	whole bool
	dc    sim.DeviceConfig
}{
	{"plain", true, sim.DeviceConfig{}},
	{"rdma", true, sim.DeviceConfig{RDMARead: true, RDMAWrite: true}},
	{"keys", false, sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, MaxRDMA: 1 << 20}},
	{"unsolicited", false, sim.DeviceConfig{RDMARead: true, RDMAWrite: true, UnsolicitedWrite: true}},
	{"read", false, sim.DeviceConfig{RDMARead: true, LocalKeys: true, MaxRDMA: 10_000}},
	{"write", false, sim.DeviceConfig{RDMAWrite: true, MaxRDMA: 10_000}},
}

// In the short form each fabric and each of the abilities comes at least once, but not each
// with each.
func TestConformance(t *testing.T) {
	for i, fab := range fabrics {
		for j, able := range abilities {
			t.Run(fab.name+"/"+able.name, func(t *testing.T) {
				if (i+j)%3 > 0 {
					testenv.Long(t, "other rows do")
				}
				fab.cfg.Seed = uint64(i) + 1
				if able.whole {
					devicetest.RunPart(t, i, 3, factory(fab.cfg, able.dc))
				} else {
					devicetest.RunRDMAPart(t, i, 3, factory(fab.cfg, able.dc))
				}
			})
		}
	}
}

func BenchmarkPacket(b *testing.B) {
	for _, fab := range fabrics {
		b.Run(fmt.Sprintf("fabric=%s", fab.name), func(b *testing.B) {
			devicetest.Benchmark(b, factory(fab.cfg, sim.DeviceConfig{}))
		})
	}
}
