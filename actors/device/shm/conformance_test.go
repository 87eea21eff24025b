//go:build linux

package shm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/devicetest"
)

// vanish ends a device as its process's death would: the locks are released, the
// files and whatever it was doing in other segments stay.
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

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(tb testing.TB, devices int) *devicetest.Fabric {
		if strings.HasSuffix(tb.Name(), "/AHCounted") {
			tb.Skip("needs devices with different GIDs; here a GID is a directory's. nic tests the counting")
		}
		dir := fabricDir(tb)
		f := &devicetest.Fabric{ReportsGone: true}
		for range devices {
			d, err := Open(Config{Dir: dir})
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
			for _, d := range f.Devices { // what happens within watchPeriod anyway
				d.(*attachment).watch.look()
			}
		}
		return f
	})
}
