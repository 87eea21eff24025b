package versus

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open adds a counter of a thread's naps, or of all other calls.
func open(list *[]int, id uint64, tid int, is string) error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
	attr.Size = uint32(unsafe.Sizeof(attr)) //nolint:gosec // the size of a struct
	fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if errors.Is(err, unix.ESRCH) {
		return nil // the thread has ended
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errCounters, err)
	}
	*list = append(*list, fd)
	return unix.IoctlSetString(fd, unix.PERF_EVENT_IOC_SET_FILTER, fmt.Sprintf("id %s %d", is, unix.SYS_NANOSLEEP))
}
