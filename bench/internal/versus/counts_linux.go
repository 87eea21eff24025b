package versus

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// naps and others are filters: the monitor's naps, and all calls but these and yields.
var (
	naps   = fmt.Sprintf("id == %d", unix.SYS_NANOSLEEP)
	others = fmt.Sprintf("id != %d && id != %d", unix.SYS_NANOSLEEP, unix.SYS_SCHED_YIELD)
)

// open adds a counter of a thread's calls that pass the filter.
func open(list *[]int, id uint64, tid int, filter string) error {
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
	return unix.IoctlSetString(fd, unix.PERF_EVENT_IOC_SET_FILTER, filter)
}
