//go:build linux

package shm

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/devicetest"
	"github.com/efactor/efactor/internal/testenv"
)

// vanish ends a device as its process's death would: the locks are released, the
// files and its unfinished changes in other segments stay.
func vanish(a *attachment) {
	a.watch.mu.Lock()
	var ports []*port
	for p := range a.watch.ports {
		ports = append(ports, p)
	}
	a.watch.mu.Unlock()
	for _, p := range ports {
		a.watch.drop(p)
		_ = blank(p.seg.mem) // the mapping holds the lock, too
		_ = unix.Close(p.seg.fd)
		p.seg.fd = -1
	}
	for _, mem := range a.ranges.all {
		_ = blank(mem)
	}
}

// TestConformance: each device is a host of its own.
func TestConformance(t *testing.T) {
	devicetest.RunPart(t, 0, 2, factory(func(i int) device.GID { return HostGID(strconv.Itoa(i)) }))
}

// TestConformanceOneGID: the default, all processes with one GID.
func TestConformanceOneGID(t *testing.T) {
	devicetest.RunPart(t, 1, 2, factory(nil))
}

// TestConformanceFiles: memory that can be cut is guarded, and otherwise the same.
func TestConformanceFiles(t *testing.T) {
	testenv.Long(t, "TestCut has what differs")
	devicetest.RunPart(t, 2, 3, factoryOf(Config{Files: true}, nil))
}

// factory makes fabrics whose devices have the GIDs given, or the directory's.
func factory(gid func(i int) device.GID) devicetest.Factory { return factoryOf(Config{}, gid) }

func factoryOf(cfg Config, gid func(i int) device.GID) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric {
		dir := fabricDir(tb)
		f := &devicetest.Fabric{ReportsGone: true, OneGID: gid == nil}
		for i := range devices {
			cfg := cfg
			cfg.Dir = dir
			if gid != nil {
				cfg.GID = gid(i)
			}
			d, err := Open(cfg)
			require.NoError(tb, err)
			tb.Cleanup(func() {
				if err := d.Close(); err != nil {
					require.ErrorIs(tb, err, device.ErrClosed)
				}
			})
			f.Devices = append(f.Devices, d)
		}
		f.Kill = func(i int) {
			vanish(f.Devices[i].(*attachment))
			for _, d := range f.Devices { // as happens at the news of a death
				d.(*attachment).watch.look()
			}
		}
		return f
	}
}
