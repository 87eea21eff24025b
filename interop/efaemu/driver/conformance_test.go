//go:build linux

package driver_test

import (
	"context"
	"flag"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

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
)

func TestMain(m *testing.M) {
	flag.Parse()
	if race { // a third as fast: the cases' short forms take every way, too
		_ = flag.Set("test.short", "true")
	}
	goleak.VerifyTestMain(m)
}

// refusals are what the suite provokes: findings of other rules are the driver's faults.
var refusals = []string{
	engine.RuleWQELKey, engine.RuleWQERange, engine.RuleWQEAH, engine.RuleWQEMemory,
}

// open opens the driver on a card; at the end of the test nothing may be left of it.
func open(tb testing.TB, fabric device.Device, p profile.Profile, cfg uverbs.Config) (device.Device, *driver.Card) {
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
// sleep.
func run(tb testing.TB, cards []*driver.Card) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, c := range cards {
		running.Go(func() { c.Run(ctx) })
	}
	tb.Cleanup(func() {
		cancel()
		running.Wait()
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
	dir := filepath.Join(tb.TempDir(), "fabric") // made by the first, with the mode that it wants
	return func(i int) device.Device {
		d, err := shm.Open(shm.Config{Dir: dir, GID: shm.HostGID(strconv.Itoa(i))})
		require.NoError(tb, err)
		return d
	}
}

func factory(p profile.Profile, on fabric, cfg uverbs.Config) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric {
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

// named is a profile by its name, with a change.
func named(tb testing.TB, name string, change func(*profile.Profile)) profile.Profile {
	tb.Helper()
	p, err := profile.Named(name)
	require.NoError(tb, err)
	if change != nil {
		change(&p)
	}
	return p
}

// long has the suite run on more kinds of card, which differ little.
var long = flag.Bool("driver.long", false, "every kind of card")

var cases = []struct {
	name    string
	profile string
	change  func(*profile.Profile)
	on      fabric
	cfg     uverbs.Config
	long    bool
}{
	{"two rings of completions", "efa", func(p *profile.Profile) { p.SubCQs = 2 }, simulated, uverbs.Config{}, false},
	{"strict", "strict", nil, shared, uverbs.Config{}, false},
	{"no RDMA", "efa", nil, simulated, uverbs.Config{}, true},
	{"reads", "efa", nil, shared, uverbs.Config{}, true},
	{"writes", "rdma-write", nil, shared, uverbs.Config{}, true},
	{"narrow", "strict", nil, shared, uverbs.Config{Narrow: true}, true},
}

// TestConformance runs the suite of drivers on emulated cards.
func TestConformance(t *testing.T) {
	for i, c := range cases {
		if *long || !c.long {
			t.Run(c.name, func(t *testing.T) { devicetest.RunPart(t, i, 2, factory(named(t, c.profile, c.change), c.on, c.cfg)) })
		}
	}
}

// TestConformanceMemory is the part about memory on a card with WQEs of 64 bytes, which
// reads and does not write.
func TestConformanceMemory(t *testing.T) {
	devicetest.RunRDMAPart(t, 1, 3, factory(named(t, "efa", nil), shared, uverbs.Config{}))
}
