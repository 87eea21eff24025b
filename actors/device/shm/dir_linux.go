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
func segmentName(qpn uint16) string  { return fmt.Sprintf("q%04x", qpn) }
func newName(gen uint64) string      { return fmt.Sprintf("new.%012x", gen) }
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
