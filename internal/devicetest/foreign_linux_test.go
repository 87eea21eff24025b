package devicetest

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
)

// faultyForeign is faultyDevice for a device with Info.Foreign.
type faultyForeign struct {
	faultyDevice
	register func(d device.Device, pid int, addr uint64, n int, a device.Access) (device.MR, error)
}

func (d faultyForeign) RegisterForeign(pid int, addr uint64, n int, a device.Access) (device.MR, error) {
	f := d.Device
	return d.changed(a, func(a device.Access) (device.MR, error) {
		if d.register != nil {
			return d.register(f, pid, addr, n, a)
		}
		return f.RegisterForeign(pid, addr, n, a)
	})
}

var foreignFlaws = map[string]struct {
	flaw
	register func(d device.Device, pid int, addr uint64, n int, a device.Access) (device.MR, error)
}{
	"makes bytes up": {flaw: flaw{caseName: "Foreign/region", region: func(mr device.MR) device.MR {
		return &lent{mr, make([]byte, 1)}
	}}},
	"takes whatever number": {
		flaw: flaw{caseName: "Foreign/region"},
		register: func(d device.Device, pid int, addr uint64, n int, a device.Access) (device.MR, error) {
			if pid <= 0 {
				pid = os.Getpid()
			}
			return d.RegisterForeign(pid, addr, n, a)
		},
	},
	"does not reach itself": {
		flaw: flaw{caseName: "Foreign/own"},
		register: func(d device.Device, pid int, addr uint64, n int, a device.Access) (device.MR, error) {
			if pid == os.Getpid() {
				return nil, errors.New("ourselves")
			}
			return d.RegisterForeign(pid, addr, n, a)
		},
	},
	"finds what is unmapped": {flaw: flaw{caseName: "Foreign/unmapped", seen: completes(device.StatusBadAddress, device.StatusOK)}},
	"overrides protection":   {flaw: flaw{caseName: "Foreign/protected", seen: completes(device.StatusBadAddress, device.StatusOK)}},
	"takes the dead for gone": {flaw: flaw{
		caseName: "Foreign/dead", seen: completes(device.StatusBadAddress, device.StatusBadDestQPN),
	}},
	"breaks with the dying": {flaw: flaw{
		caseName: "Foreign/dying", seen: completes(device.StatusBadAddress, device.StatusQPInternal),
	}},
	"reads elsewhere": {flaw: flaw{
		caseName: "Foreign/RDMA/unaligned", send: onRDMA(func(wr *device.SendWR) { wr.Remote &^= 1 }),
	}},
}

// TestForeignNotices is TestSuiteNotices for drivers that reach other processes.
func TestForeignNotices(t *testing.T) {
	for name, at := range foreignFlaws {
		t.Run(name, func(t *testing.T) {
			run := func(flawed bool, wait time.Duration) bool {
				return passesOn(t, at.caseName, wait, func(v *verdict, devices int) *Fabric {
					df := &Fabric{OneGID: true}
					dir := t.TempDir() + "/fabric"
					for range devices {
						d, err := shm.Open(shm.Config{Dir: dir})
						require.NoError(v, err)
						v.Cleanup(func() { _ = d.Close() })
						f := faultyForeign{faultyDevice: faultyDevice{d, &flaw{}}}
						if flawed {
							f.at, f.register = &at.flaw, at.register
						}
						df.Devices = append(df.Devices, f)
					}
					return df
				})
			}
			require.True(t, run(false, patience), "sound")
			require.False(t, run(true, time.Second), "flawed")
		})
	}
}
