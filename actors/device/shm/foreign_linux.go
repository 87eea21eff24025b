package shm

import (
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// foreignWait is leaseWait for memory of other processes. A late copy there writes to
// memory which is in use again, and no blank memory can be put in its place, so the
// wait is longer.
const foreignWait = time.Second

// RegisterForeign implements device.Device. The region is a file of one page that
// names the process; each requester needs the kernel's permission to access it (see
// Config.Logger).
func (a *attachment) RegisterForeign(pid int, addr uint64, n int, access device.Access) (device.MR, error) {
	if n <= 0 || addr == 0 {
		return nil, fmt.Errorf("%w: region of %d bytes at %#x", device.ErrNotSupported, n, addr)
	}
	if uint64(n) > maxRegion {
		return nil, fmt.Errorf("%w: region of %d bytes", device.ErrNoMemory, n)
	}
	p, err := openProcess(pid, startOf)
	if err != nil {
		return nil, err
	}
	p.release()
	return a.newRegion(pageBytes, func([]byte) (nic.Memory, regionHeader) {
		return nic.Memory{Foreign: n, Addr: addr, Access: access},
			regionHeader{size: uint64(n), kind: kindProcess, process: p.id}
	})
}
