package shm

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// Segments and regions are both files that are opened with care, have their memory
// from the beginning and are locked before other processes rely on them.

var (
	// errNoSegment: the file is not a segment.
	errNoSegment = errors.New("shm: not a segment")
	// errSwept: a sweep found the new file before it was locked and took it for
	// that of a dead process.
	errSwept = errors.New("shm: swept away")
)

// lockNew takes a new file's lock. From then on no other process removes it, so a
// bell made beside it never exists without it.
func lockNew(fd int) error {
	ok, err := tryLock(fd)
	if err != nil {
		return fmt.Errorf("shm: lock: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("shm: stat: %w", err)
	}
	if !ok || st.Nlink == 0 {
		return errSwept
	}
	return nil
}

// reserve allocates a new file's memory now: a full /dev/shm must be an error here,
// not a SIGBUS later. Some file systems cannot do so.
func reserve(fd, size int) error {
	enlarge(fd, size)
	err := unix.Fallocate(fd, 0, 0, int64(size))
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = unix.Ftruncate(fd, int64(size))
	}
	if errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("%w: shm: %d bytes: %w; remove files from the file system (df /dev/shm), or make it larger "+
			"(mount -o remount,size=, docker run --shm-size=)", device.ErrNoMemory, size, err)
	}
	if err != nil {
		return fmt.Errorf("%w: shm: %d bytes: %w", device.ErrNoMemory, size, err)
	}
	return nil
}

// blank puts untouched private memory at the addresses of a mapping.
func blank(mem []byte) error {
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&mem[0]), uintptr(len(mem)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("shm: unmap: %w", err)
	}
	return nil
}

// Liveness is a lock on the whole of a segment file, held from before the segment
// has a name. It belongs to the open file (an OFD lock), so the kernel drops it
// when the process ends, however it ends, and two devices of one process see each
// other's. Testing the lock does not take it, so tests do not disturb each other.

func wholeFile() *unix.Flock_t { return &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart} }

// sweepers is the lock of a process that removes a dead one's file. It excludes all others, and
// its length tells it from an owner's, which has no end.
func sweepers() *unix.Flock_t {
	l := wholeFile()
	l.Len = 1 << 62
	return l
}

// tryLock takes fd's lock as its owner, unless another open file has it.
func tryLock(fd int) (bool, error) { return try(fd, wholeFile()) }

// trySweep takes fd's lock to remove the file, unless another open file has it.
func trySweep(fd int) (bool, error) { return try(fd, sweepers()) }

func try(fd int, l *unix.Flock_t) (bool, error) {
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, l)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// lockedByOther reports whether another open file has the lock as its owner. An error counts
// as yes: it must not declare a process dead.
func lockedByOther(fd int) bool {
	l := wholeFile()
	err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, l)
	return err != nil || l.Type != unix.F_UNLCK && l.Len == 0
}
