package shm

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// sweep removes what dead processes have left and compares the MTU of the living
// with ours.
func (f *folder) sweep(mtu int) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if isRegion(name) {
			f.sweepRegion(name)
			continue
		}
		qpn, gen, ok := parseName(name)
		if !ok {
			continue
		}
		s, err := f.find(name)
		if err != nil {
			continue // gone meanwhile, or not a segment at all
		}
		if !s.alive() {
			if qpn != 0 {
				gen = s.hdr.gen
			}
			f.remove(s.fd, name, gen)
		} else if qpn != 0 && s.hdr.magic == magic && int(s.hdr.mtu) != mtu {
			err = fmt.Errorf("%w: %d, not %d", ErrMTU, s.hdr.mtu, mtu)
		}
		s.close()
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the file name, open as fd, and its bell, unless its owner lives.
// The lock is held meanwhile, so that nobody else does it; whoever took it too
// late finds another file, or none, behind the name. It marks the segment dead for
// those who have it mapped.
func (f *folder) remove(fd int, name string, gen uint64) bool {
	if locked, err := tryLock(fd); err != nil || !locked {
		return false
	}
	var own, named unix.Stat_t
	if unix.Fstat(fd, &own) != nil {
		return false
	}
	if own.Size >= headerBytes+controlBytes {
		markDead(fd, headerBytes)
	}
	if unix.Fstatat(f.fd, name, &named, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		named.Ino == own.Ino && named.Dev == own.Dev {
		_ = unix.Unlinkat(f.fd, bellName(gen), 0)
		_ = unix.Unlinkat(f.fd, name, 0)
	}
	return true
}

// markDead tells everybody who has a segment or region mapped that its owner is
// gone, unless the owner itself has said so. The word of it is at offset at.
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
func (f *folder) sweepRegion(name string) {
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
func (f *folder) removeRegion(fd int, name string) {
	if locked, err := tryLock(fd); err != nil || !locked {
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

// mournFor is how many rounds of the watcher look for the regions of somebody who
// has died. The kernel drops its locks in any order, so one may not be enough.
const mournFor = 3

// mourn has the watcher look for the regions of the dead.
func (f *folder) mourn() { f.mourning.Store(mournFor) }

// lookForOrphans removes the regions of the dead, if somebody has died lately.
func (f *folder) lookForOrphans() {
	if f.mourning.Load() == 0 {
		return
	}
	f.mourning.Add(-1)
	names, err := f.names()
	if err != nil {
		return // the next round tries again
	}
	for _, name := range names {
		if isRegion(name) {
			f.sweepRegion(name)
		}
	}
}
