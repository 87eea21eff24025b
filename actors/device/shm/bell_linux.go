package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A bell is a FIFO beside the segment: a byte in it ends the owner's ppoll.

// makeBell makes the FIFO of an own segment. The owner opens both ends, so that it
// never reads an end of file.
func (f *folder) makeBell(gen uint64) (int, error) {
	if err := unix.Mkfifoat(f.fd, bellName(gen), 0o600); err != nil {
		return -1, fmt.Errorf("shm: mkfifo: %w", err)
	}
	return f.openBell(gen, unix.O_RDWR)
}

func (f *folder) openBell(gen uint64, mode int) (int, error) {
	fd, err := unix.Openat(f.fd, bellName(gen), mode|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("shm: open bell: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("shm: stat bell: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%w: the bell is not a fifo", errNoSegment)
	}
	return fd, nil
}

// ringBell wakes the owner. A full FIFO is readable anyway, and one without a reader
// belongs to a dead process.
func ringBell(fd int) {
	for {
		if _, err := unix.Write(fd, []byte{1}); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// drain empties a non-blocking descriptor: the bell, or the timer.
func drain(fd int) {
	var b [64]byte
	for {
		n, err := unix.Read(fd, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n < len(b) {
			return
		}
	}
}
