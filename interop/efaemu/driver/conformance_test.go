//go:build linux

package driver_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/internal/devicetest"
	"github.com/efactor/efactor/interop/efaemu/driver"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/profile"
	"github.com/efactor/efactor/runtime/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// refusals are what the suite provokes: findings of other rules are the driver's faults.
var refusals = []string{
	engine.RuleWQELKey, engine.RuleWQERange, engine.RuleWQEAH, engine.RuleWQEMemory,
}

// open opens the driver on a card; at the end of the test nothing may be left of it.
func open(tb testing.TB, fabric device.Device, p profile.Profile, cfg uverbs.Config) (*uverbs.Device, *driver.Card) {
	tb.Helper()
	card, err := driver.New(fabric, p)
	require.NoError(tb, err)
	cfg.Path, cfg.Kernel = "/dev/infiniband/uverbs0", card.System()
	d, err := uverbs.Open(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			require.ErrorIs(tb, err, device.ErrClosed)
		}
		assert.Equal(tb, kernel.Stats{}, card.Kernel.Stats(), "left behind")
		found, _ := card.Findings.Take()
		for _, f := range found {
			assert.Contains(tb, refusals, f.Rule, "%v", f)
		}
		require.NoError(tb, card.Close())
	})
	return d, card
}

// run lets cards work until the test ends, beside a test that does it itself: some cases
// sleep. It naps, so that it does not take the processor away from them.
func run(tb testing.TB, cards []*driver.Card) {
	stop := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		nap := clock.NewTimer(0)
		defer nap.Stop()
		for {
			worked := false
			for _, c := range cards {
				worked = c.Engine.Step() || worked
			}
			if !worked {
				nap.Reset(50 * time.Microsecond)
				<-nap.C
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	tb.Cleanup(func() {
		close(stop)
		ended.Wait()
	})
}

// fabric opens the devices that carry the packets of cards.
type fabric func(tb testing.TB) func(i int) device.Device

// simulated is a fabric in this process. It has no RDMA into the memory of programs.
func simulated(tb testing.TB) func(int) device.Device {
	f, err := sim.New(sim.Config{})
	require.NoError(tb, err)
	return func(int) device.Device {
		d, err := f.OpenDevice(sim.DeviceConfig{})
		require.NoError(tb, err)
		return d
	}
}

// shared is a fabric of hosts in a directory, with RDMA.
func shared(tb testing.TB) func(int) device.Device {
	dir := tb.TempDir()
	return func(i int) device.Device {
		d, err := shm.Open(shm.Config{Dir: dir, GID: shm.HostGID(strconv.Itoa(i))})
		require.NoError(tb, err)
		return d
	}
}

func factory(name string, on fabric, cfg uverbs.Config) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric {
		p, err := profile.Named(name)
		require.NoError(tb, err)
		carrier := on(tb)
		f := &devicetest.Fabric{Hardware: true}
		var cards []*driver.Card
		for i := range devices {
			d, card := open(tb, carrier(i), p, cfg)
			f.Devices, cards = append(f.Devices, d), append(cards, card)
		}
		f.Progress = func() {
			for _, c := range cards {
				c.Engine.Step()
			}
		}
		f.Posted = f.Progress // a sender of another card would meet RNR until its next look
		run(tb, cards)
		return f
	}
}

var cases = []struct {
	name    string
	profile string
	on      fabric
	cfg     uverbs.Config
}{
	{"sim", "efa", simulated, uverbs.Config{}},
	{"sim, first cards", "efa0", simulated, uverbs.Config{}},
	{"shm", "efa", shared, uverbs.Config{}},
	{"shm, writes", "rdma-write", shared, uverbs.Config{}},
	{"shm, strict", "strict", shared, uverbs.Config{}},
	{"shm, narrow", "strict", shared, uverbs.Config{Narrow: true}},
}

// TestConformance runs the suite of drivers on emulated cards of several kinds.
func TestConformance(t *testing.T) {
	for i, c := range cases {
		if testing.Short() && !slices.Contains([]int{0, 4}, i) {
			continue
		}
		t.Run(c.name, func(t *testing.T) { devicetest.Run(t, factory(c.profile, c.on, c.cfg)) })
	}
}
