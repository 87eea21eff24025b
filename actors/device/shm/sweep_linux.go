package shm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// sweep removes the files of dead processes and compares the MTU of the living ones
// with ours.
func (f *directory) sweep(mtu int) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		h := f.sweepName(name)
		if h.qpn != 0 && h.magic == magic && int(h.mtu) != mtu {
			return fmt.Errorf("%w: %d, not %d", ErrMTU, h.mtu, mtu)
		}
	}
	return nil
}

// sweepName removes the file name, unless it is not ours or its owner lives. It returns the
// header of a segment whose owner does.
func (f *directory) sweepName(name string) (h header) {
	if isRegion(name) {
		f.sweepRegion(name)
		return h
	}
	qpn, gen, ok := parseName(name)
	if !ok {
		return h
	}
	s, err := f.find(name)
	if err != nil {
		return h // gone meanwhile, or not a segment at all
	}
	defer s.close()
	if s.alive() {
		return s.hdr
	}
	if qpn != 0 {
		gen = s.hdr.gen
	}
	f.remove(s.fd, name, gen)
	return h
}

// remove deletes the file name, open as fd, and its doorbell, unless its owner lives.
// The lock is held meanwhile, so that no other process does it; one that took the
// lock too late finds another file, or none, behind the name. If the memory is in the file,
// remove marks the segment dead for those that have it mapped; others find that out by the lock.
// It reports whether the name is no more that of the file.
func (f *directory) remove(fd int, name string, gen uint64) bool {
	if locked, err := trySweep(fd); err != nil || !locked {
		return false
	}
	var own, named unix.Stat_t
	if unix.Fstat(fd, &own) != nil {
		return false
	}
	if own.Size >= headerBytes+controlBytes {
		markDead(fd, headerBytes)
	}
	err := unix.Fstatat(f.fd, name, &named, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && named.Ino == own.Ino && named.Dev == own.Dev {
		_ = unix.Unlinkat(f.fd, doorbellName(gen), 0)
		_ = unix.Unlinkat(f.fd, name, 0)
	}
	return err == nil || errors.Is(err, unix.ENOENT)
}

// markDead marks a segment or region in a file dead for all processes that have it mapped,
// unless the owner itself has closed it. The word to write is at offset at. Sealed memory
// cannot be reached without its owner.
func markDead(fd int, at int64) {
	var b [4]byte
	if n, err := unix.Pread(fd, b[:], at); err != nil || n != len(b) ||
		binary.NativeEndian.Uint32(b[:]) == closed {
		return
	}
	binary.NativeEndian.PutUint32(b[:], dead)
	_, _ = unix.Pwrite(fd, b[:], at) // they find out by the lock, too
}

// sweepRegion removes the file name, a region's, unless its owner lives.
func (f *directory) sweepRegion(name string) {
	fd, _, err := f.openOwn(name, unix.O_RDWR)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !lockedByOther(fd) {
		f.removeRegion(fd, name)
	}
}

// removeRegion is remove for a region.
func (f *directory) removeRegion(fd int, name string) {
	if locked, err := trySweep(fd); err != nil || !locked {
		return
	}
	var own, named unix.Stat_t
	if unix.Fstat(fd, &own) != nil {
		return
	}
	if own.Size >= int64(pageBytes) {
		markDead(fd, pairBytes)
	}
	if unix.Fstatat(f.fd, name, &named, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		named.Ino == own.Ino && named.Dev == own.Dev {
		_ = unix.Unlinkat(f.fd, name, 0)
	}
}

// orphanRounds is how many rounds of the watcher look for the other files of a dead
// process. The kernel drops its locks in any order, so one may not be enough.
const orphanRounds = 3

// expectOrphans makes the watcher look for the files of dead processes.
func (f *directory) expectOrphans() { f.roundsLeft.Store(orphanRounds) }

// lookForOrphans removes the files of dead processes, if one has died lately; false: none
// has.
func (f *directory) lookForOrphans() bool {
	if f.roundsLeft.Load() == 0 {
		return false
	}
	f.roundsLeft.Add(-1)
	names, err := f.names()
	if err != nil {
		return true // the next round tries again
	}
	for _, name := range names {
		f.sweepName(name)
	}
	return true
}
