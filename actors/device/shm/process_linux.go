package shm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
	"github.com/efactor/efactor/runtime/sys"
)

// A process's memory is reached by its number (process_vm_readv), and the number of
// a process that has ended may be reused. A descriptor of the process reports its
// end before the number is free. So bytes copied while the descriptor was silent,
// until after the copy, came from that process: it is polled after each copy, and
// before each write as well. Between that poll and a write the process may still
// end and its number be reused; no known means excludes that.
//
// The kernel decides at each copy whether we may access the memory
// (ptrace_may_access), and whether it is there and may be read or written. A process
// that replaces its program stays the same process: the one that registered the
// region must close it then.

var (
	// errOver: the process has ended.
	errOver = fmt.Errorf("shm: the process has ended: %w", unix.ESRCH)
	// errFault: nothing is mapped there, or not with that right.
	errFault = errors.New("shm: bad address")
	// errNumbers: which process has a number cannot be told.
	errNumbers = errors.New("/proc has not the process numbers of this process's namespace")
)

// proc is a process in whose memory regions lie.
type proc struct {
	id    processID
	fd    int // readable when it has ended
	over  atomic.Bool
	users users
}

// openProcess finds out which process has a number at present.
func openProcess(pid int, start func(pid int) (uint64, error)) (*proc, error) {
	if pid <= 0 || pid > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d", errOver, pid)
	}
	fd, err := sys.OpenProcess(pid)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("%w: %d", errOver, pid)
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return nil, denied(pid, err)
	case err != nil:
		return nil, fmt.Errorf("shm: process %d: %w", pid, err)
	}
	p := &proc{id: processID{pid: uint32(pid), space: pidSpace()}, fd: fd}
	p.users.n.Store(1)
	p.id.start, err = start(pid)
	if p.ended() { // so that may have been another's
		err = fmt.Errorf("%w: %d", errOver, pid)
	} else if err != nil {
		err = denied(pid, err) // one may hide /proc from others
	}
	if err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// findProcess is openProcess for a given process.
func findProcess(id processID) (*proc, error) {
	p, err := openProcess(int(id.pid), startOf)
	if err == nil && p.id != id {
		p.release()
		return nil, fmt.Errorf("%w: another has its number %d", errOver, id.pid)
	}
	return p, err
}

func (p *proc) release() {
	if p.users.quit() {
		_ = unix.Close(p.fd)
	}
}

// ended polls the descriptor. An error counts as ended.
func (p *proc) ended() bool {
	for !p.over.Load() {
		fds := [1]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds[:], 0)
		if n == 0 && err == nil {
			return false
		}
		if !errors.Is(err, unix.EINTR) {
			p.over.Store(true)
		}
	}
	return true
}

// copy moves len(local) bytes between local and the process's memory at addr.
func (p *proc) copy(kind device.WR, local []byte, addr uint64) error {
	if kind == device.WRWrite && p.ended() {
		return errOver
	}
	err := p.move(kind, local, addr)
	if p.ended() {
		return errOver
	}
	return err
}

func (p *proc) move(kind device.WR, local []byte, addr uint64) error {
	if len(local) == 0 {
		return nil
	}
	var n int
	var err error
	if kind == device.WRRead {
		n, err = sys.ReadProcess(int(p.id.pid), local, addr)
	} else {
		n, err = sys.WriteProcess(int(p.id.pid), local, addr)
	}
	switch {
	case err == nil && n == len(local):
		return nil
	case err == nil || errors.Is(err, unix.EFAULT): // part of it, or none
		return errFault
	case errors.Is(err, unix.ESRCH): // it is about to
		return errOver
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
		return denied(int(p.id.pid), err)
	default:
		return fmt.Errorf("shm: memory of process %d: %w", p.id.pid, err)
	}
}

// startOf reads the start time of a process: field 22 of the line of its first thread, of
// which the second is a name in parentheses with any characters in it. In the process's own
// line qemu's user mode shows each thread another time.
func startOf(pid int) (uint64, error) {
	if pidSpace() == 0 {
		return 0, errNumbers
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", pid, pid))
	if err != nil {
		return 0, err
	}
	line := string(b)
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	const starttime = 22 - 3
	if len(fields) <= starttime {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields)+2)
	}
	return strconv.ParseUint(fields[starttime], 10, 64)
}

// pidSpace identifies the namespace of process numbers here; 0 without a /proc that has these numbers.
var pidSpace = sync.OnceValue(func() uint64 { return pidSpaceIn("/proc") })

// pidSpaceIn is pidSpace for a /proc. Below "unshare -pf" it has the numbers of the namespace that the
// process comes from: ours are other processes' there.
func pidSpaceIn(proc string) uint64 {
	if self, err := os.Readlink(proc + "/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return namespace(proc, "pid")
}

// namespace identifies a namespace of this process; 0 without /proc.
func namespace(proc, kind string) uint64 {
	st, err := os.Stat(proc + "/self/ns/" + kind)
	if err != nil {
		return 0
	}
	x, _ := st.Sys().(*syscall.Stat_t)
	if x == nil {
		return 0
	}
	return x.Ino
}

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

// foreignWait is leaseWait for memory of other processes. A late copy there writes to
// memory which is in use again, and no blank memory can be put in its place, so the
// wait is longer.
const foreignWait = time.Second
