package shm

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// Names in the directory. A segment is made as new.<generation> and then linked to
// q<qpn>; the bell exists as long as one of these does. A region is r<key>. Other
// names are ignored.
func segmentName(qpn uint16) string { return fmt.Sprintf("q%04x", qpn) }
func newName(gen uint64) string     { return fmt.Sprintf("new.%012x", gen) }
func bellName(gen uint64) string    { return fmt.Sprintf("bell.%012x", gen) }

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

// folder is the directory of a fabric. Files are reached through its descriptor,
// so that what was checked is what is used.
type folder struct {
	fd  int
	dir string
	gid device.GID // of the device
	dom uint64     // of the device, random

	files bool // Config.Files

	roundsLeft atomic.Int32 // rounds of lookForOrphans to come
}

// openFolder opens dir, making it if it is missing.
func openFolder(dir string) (*folder, error) {
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
	return &folder{fd: fd, dir: dir, gid: gidOf(&st), dom: binary.NativeEndian.Uint64(dom[:])}, nil
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
func (f *folder) gidWithin(processes, users, caps uint64) device.GID {
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

func (f *folder) close() error { return unix.Close(f.fd) }

// names lists the directory.
func (f *folder) names() ([]string, error) {
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
