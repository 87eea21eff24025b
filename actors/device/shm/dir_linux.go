package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// Names in the directory. A segment is made as new.<generation> and then linked to
// q<qpn>; the doorbell exists as long as one of these does. A region is r<key>. Other
// names are ignored.
func segmentName(qpn uint16) string { return fmt.Sprintf("q%04x", qpn) }

func newName(gen uint64) string { return fmt.Sprintf("new.%012x", gen) }

func doorbellName(gen uint64) string { return fmt.Sprintf("bell.%012x", gen) }

func regionName(key uint64) string { return fmt.Sprintf("r%08x", key) }

// parseName returns the number of a segment with that name, or the generation of an
// unfinished one.
func parseName(name string) (qpn uint16, gen uint64, ok bool) {
	if hex, is := strings.CutPrefix(name, "new."); is {
		gen, err := strconv.ParseUint(hex, 16, 64)
		return 0, gen, err == nil && newName(gen) == name
	}
	if hex, is := strings.CutPrefix(name, "q"); is {
		n, err := strconv.ParseUint(hex, 16, 16)
		return uint16(n), 0, err == nil && n != 0 && segmentName(uint16(n)) == name
	}
	return 0, 0, false
}

// isRegion reports whether a name is a region's.
func isRegion(name string) bool {
	hex, is := strings.CutPrefix(name, "r")
	n, err := strconv.ParseUint(hex, 16, 32)
	return is && err == nil && n != 0 && regionName(n) == name
}

// directory is that of a fabric. Files are reached through its descriptor,
// so that what was checked is what is used.
type directory struct {
	fd  int
	dir string
	gid device.GID // of the device
	dom uint64     // of the device, random

	files bool // Config.Files

	roundsLeft atomic.Int32 // rounds of lookForOrphans to come
}

// openDirectory opens dir, making it if it is missing.
func openDirectory(dir string) (*directory, error) {
	if err := unix.Mkdir(dir, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("shm: mkdir %s: %w", dir, err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil { // ENOTDIR for a symbolic link
		return nil, fmt.Errorf("%w: %s: %w", ErrDirectory, dir, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("shm: stat %s: %w", dir, err)
	}
	if err := checkOwner(&st, os.Geteuid()); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("%w: %s %w", ErrDirectory, dir, err)
	}
	var dom [8]byte
	_, _ = rand.Read(dom[:]) // never fails
	return &directory{fd: fd, dir: dir, gid: gidOf(&st), dom: binary.NativeEndian.Uint64(dom[:])}, nil
}

func checkOwner(st *unix.Stat_t, uid int) error {
	if int(st.Uid) != uid {
		return fmt.Errorf("belongs to user %d", st.Uid)
	}
	if st.Mode&0o077 != 0 {
		return fmt.Errorf("has mode %04o, not 0700", st.Mode&0o7777)
	}
	return nil
}

// gidOf returns a GID for a directory: the same for all processes, by any path
// they reach it, and different from that of any other directory.
func gidOf(st *unix.Stat_t) device.GID {
	return linkLocal(fmt.Appendf(hostID("/proc/sys/kernel/random/boot_id"), "%d %d %d", st.Dev, st.Ino, st.Uid))
}

// gidWithin is the GID of the directory for the processes that can open each other's memory:
// those of one namespace of process numbers, by which they find it, and one of users, with the
// same capabilities if they are root's. Others are not in reach.
func (f *directory) gidWithin(processes, users, caps uint64) device.GID {
	return linkLocal(fmt.Appendf(f.gid[:], " %d %d %x", processes, users, caps))
}

// hostID identifies this host, so that a process on another host does not take a
// directory there for this one. Without /proc it is the host's name.
func hostID(boot string) []byte {
	id, err := os.ReadFile(boot)
	if err == nil && len(id) > 0 {
		return id
	}
	name, _ := os.Hostname()
	return []byte(name + " ")
}

func (f *directory) close() error { return unix.Close(f.fd) }

// names lists the directory.
func (f *directory) names() ([]string, error) {
	d, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.fd))
	if err != nil {
		d, err = os.Open(f.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("shm: list %s: %w", f.dir, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("shm: list %s: %w", f.dir, err)
	}
	return names, nil
}

// defaultParent is where the processes of a user meet by default. Not $XDG_RUNTIME_DIR: a
// service, a cron job and a command over ssh have none or another one than a login session,
// and would not find each other; it also ends with the session.
func defaultParent() string {
	parent := "/dev/shm"
	if st, err := os.Stat(parent); err != nil || !st.IsDir() {
		parent = os.TempDir()
	}
	return parent
}

// defaultDir is the directory in parent that the processes of a user share. It is made if
// there is none. Anybody can take a name that is known beforehand; then one is made that
// cannot be known. So the directory is found by its owner: the oldest one of ours counts. A
// process that makes one looks again, and so sees all older ones: two that begin at the same
// time agree.
func defaultDir(parent string) (string, error) {
	uid := os.Geteuid()
	plain := fmt.Sprintf("efactor-%d", uid)
	name, err := firstMade(parent, plain, uid)
	if err != nil || name != "" {
		return filepath.Join(parent, name), err
	}
	err = unix.Mkdir(filepath.Join(parent, plain), 0o700)
	if errors.Is(err, unix.EEXIST) {
		if name, err = firstMade(parent, plain, uid); err != nil || name != "" { // made by ours just now
			return filepath.Join(parent, name), err
		}
		err = unix.Mkdir(filepath.Join(parent, plain+"."+strings.ToLower(rand.Text())), 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("shm: mkdir in %s: %w", parent, err)
	}
	name, err = firstMade(parent, plain, uid)
	if err == nil && name == "" {
		err = fmt.Errorf("%w: what was made in %s is gone", ErrDirectory, parent)
	}
	return filepath.Join(parent, name), err
}

// checkParent reports an error if other users can move away what is ours in parent. They
// cannot put something else in its place, since openDirectory looks at the owner, but keep our
// processes from meeting. A container may know no better place.
func checkParent(parent string) error {
	var st unix.Stat_t
	if err := unix.Stat(parent, &st); err != nil {
		return fmt.Errorf("shm: stat %s: %w", parent, err)
	}
	if uid := int(st.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to user %d", ErrDirectory, parent, uid)
	}
	if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("%w: %s has mode %04o: anybody may rename what is in it", ErrDirectory, parent, st.Mode&0o7777)
	}
	return nil
}

// firstMade returns the name of the directory in parent that the user made first, of those named
// plain, or plain and a suffix; "": there is none.
func firstMade(parent, plain string, uid int) (string, error) {
	d, err := os.Open(parent)
	if err != nil {
		return "", fmt.Errorf("shm: list %s: %w", parent, err)
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return "", fmt.Errorf("shm: list %s: %w", parent, err)
	}
	best := birth{}
	for _, n := range names {
		if n != plain && !strings.HasPrefix(n, plain+".") {
			continue
		}
		if b, ok := birthOf(filepath.Join(parent, n), n, uid); ok && (best.name == "" || b.before(&best)) {
			best = b
		}
	}
	return best.name, nil
}

// birth says when a directory was made. The clock of a file system is coarse; the numbers of
// a tmpfs rise.
type birth struct {
	time  unix.StatxTimestamp
	inode uint64
	name  string
}

func birthOf(path, name string, uid int) (birth, bool) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || checkOwner(&st, uid) != nil {
		return birth{}, false
	}
	b := birth{inode: st.Ino, name: name}
	var sx unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &sx) == nil && sx.Mask&unix.STATX_BTIME != 0 {
		b.time = sx.Btime
	}
	return b, true
}

func (b *birth) before(o *birth) bool {
	switch {
	case b.time.Sec != o.time.Sec:
		return b.time.Sec < o.time.Sec
	case b.time.Nsec != o.time.Nsec:
		return b.time.Nsec < o.time.Nsec
	}
	return b.inode < o.inode
}

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
const orphanRounds = 4

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

// openOwn opens the file name if it is a regular file of ours.
func (f *directory) openOwn(name string, mode int) (fd int, st unix.Stat_t, err error) {
	fd, err = unix.Openat(f.fd, name, mode|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, fmt.Errorf("shm: open %s: %w", name, err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return -1, st, fmt.Errorf("shm: stat %s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		_ = unix.Close(fd)
		return -1, st, fmt.Errorf("%w: %s", errNoSegment, name)
	}
	return fd, st, nil
}
