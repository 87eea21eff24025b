package shm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/sys"
)

// A process that can open a file can cut it, and then those that have it mapped die of
// SIGBUS at the next touch. So the memory of segments and regions is not in their files but in memory
// files (memfd) that are sealed against that; their owner has them open for as long as they
// are used, and others open them through its directory in /proc. The file in the
// fabric's directory is what has the name and the lock, and says where the memory is.
//
// Where others cannot do that, as without /proc, the memory is in the file, as it is for
// Config.Files (ptrace_linux.go). A process of another namespace of process numbers finds no way to sealed
// memory: there all processes need Config.Files.

// sealedName begins the name of such memory, which /proc shows; the file's name follows.
const sealedName = "efactor-"

var (
	// errElsewhere: the memory is in the reach of another namespace of processes.
	errElsewhere = errors.New("shm: the memory belongs to a process in another namespace; use Config.Files on both sides")
	// errNotSealed: what was found there is other than sealed memory.
	errNotSealed = errors.New("shm: not sealed memory")
)

// newSealed makes size bytes of memory that nobody can cut; the owner must keep the
// descriptor open.
func newSealed(name string, size int) (fd int, at sealedAt, err error) {
	if hides() {
		return -1, sealedAt{}, fmt.Errorf("%w: %w", errNotSealed, errHidden)
	}
	// No file system limits such memory: beyond what there is, the kernel ends processes.
	free, err := sys.FreeMemory()
	switch {
	case err != nil:
		return -1, sealedAt{}, fmt.Errorf("%w: %w", errNotSealed, err)
	case uint64(size) > free-free/8:
		return -1, sealedAt{}, fmt.Errorf("%w: shm: %d bytes, of %d available: %w", device.ErrNoMemory, size, free, unix.ENOMEM)
	}
	fd, err = unix.MemfdCreate(sealedName+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, sealedAt{}, fmt.Errorf("%w: %w", errNotSealed, err)
	}
	if err = reserve(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, sealedAt{}, err
	}
	at = sealedAt{process: processID{pid: uint32(os.Getpid()), space: pidSpace()}, fd: uint32(fd) + 1}
	other, err := at.open(unix.O_RDWR)
	if err != nil { // nor can others, then
		_ = unix.Close(fd)
		return -1, sealedAt{}, fmt.Errorf("%w: %w", errNotSealed, err)
	}
	_ = unix.Close(other)
	return fd, at, nil
}

// open opens the memory. ENOENT: its process has ended, or does not use it any more.
func (at *sealedAt) open(mode int) (int, error) {
	if at.process.space == 0 || at.process.space != pidSpace() {
		return -1, errElsewhere
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", at.process.pid, at.fd-1)
	// The number may be another process's by now, or another file's: look before opening.
	target, err := os.Readlink(path)
	if err != nil {
		return -1, fmt.Errorf("shm: %w", withPtrace(err))
	}
	if !strings.HasPrefix(target, "/memfd:"+sealedName) {
		return -1, fmt.Errorf("%w: %s", errNotSealed, target)
	}
	fd, err := unix.Open(path, mode|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("shm: open %s: %w", path, withPtrace(err))
	}
	var st unix.Stat_t
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s: %w", errNotSealed, path, err)
	case seals&unix.F_SEAL_SHRINK == 0 || int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("%w: %s", errNotSealed, path)
	default:
		return fd, nil
	}
	_ = unix.Close(fd)
	return -1, err
}

// writeHeader puts a header at the beginning of a file.
func writeHeader[H header | regionHeader](fd int, h *H) error {
	b := unsafe.Slice((*byte)(unsafe.Pointer(h)), unsafe.Sizeof(*h))
	if n, err := unix.Pwrite(fd, b, 0); err != nil || n != len(b) {
		return fmt.Errorf("shm: write header: %d bytes: %w", n, err)
	}
	return nil
}
