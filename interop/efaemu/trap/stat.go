//go:build linux && (amd64 || arm64)

package trap

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
)

// The character device's number, the kernel's own for uverbs0; sysfs has it too.
const (
	devMajor = 231
	devMinor = 192
)

// deviceStat is the result of stat(2) and statx(2) for the device, by its path and
// by its descriptors.
type deviceStat struct {
	st unix.Stat_t
	sx unix.Statx_t
}

func newDeviceStat() deviceStat {
	const (
		mode      = unix.S_IFCHR | 0o666
		fs, inode = 5, 0xefa0 // a file system and a file that look like any other
		block     = 4096
	)
	now := clock.Deadline(0) // the wall clock
	var d deviceStat
	d.st.Dev, d.st.Ino, d.st.Nlink, d.st.Mode, d.st.Blksize = fs, inode, 1, mode, block
	d.st.Rdev = unix.Mkdev(devMajor, devMinor)
	ts, _ := unix.TimeToTimespec(now) // fails in 2262 on no machine of 64 bits
	d.st.Atim, d.st.Mtim, d.st.Ctim = ts, ts, ts

	d.sx.Mask = unix.STATX_BASIC_STATS
	d.sx.Dev_minor, d.sx.Ino, d.sx.Nlink, d.sx.Mode, d.sx.Blksize = fs, inode, 1, mode, block
	d.sx.Rdev_major, d.sx.Rdev_minor = devMajor, devMinor
	tx := unix.StatxTimestamp{Sec: ts.Sec, Nsec: uint32(ts.Nsec)}
	d.sx.Atime, d.sx.Mtime, d.sx.Ctime = tx, tx, tx
	return d
}

func (s *supervisor) stat(c *call) answer {
	if !c.isDevice(c.Args[0]) {
		return pass
	}
	return s.tellStat(c, c.Args[1])
}

func (s *supervisor) fstat(c *call) answer {
	if s.sessions.of(int(c.TID), int32(c.Args[0])) == nil {
		return pass
	}
	return s.tellStat(c, c.Args[1])
}

func (s *supervisor) fstatat(c *call) answer {
	if !s.about(c, c.Args[3]) {
		return pass
	}
	return s.tellStat(c, c.Args[2])
}

func (s *supervisor) statx(c *call) answer {
	if !s.about(c, c.Args[2]) {
		return pass
	}
	return s.tell(c, unsafe.Slice((*byte)(unsafe.Pointer(&s.device.sx)), unsafe.Sizeof(s.device.sx)), c.Args[4])
}

// about reports whether a call with a directory and a path, or an empty path and
// AT_EMPTY_PATH, is about the device.
func (s *supervisor) about(c *call, flags uint64) bool {
	if flags&unix.AT_EMPTY_PATH != 0 && c.emptyString(c.Args[1]) {
		return s.sessions.of(int(c.TID), int32(c.Args[0])) != nil
	}
	return c.isDevice(c.Args[1])
}

// emptyString reports whether the path at addr is empty; a null pointer counts as
// that (Linux 6.11).
func (c *call) emptyString(addr uint64) bool {
	var b [1]byte
	return addr == 0 || c.space().ReadAt(b[:], addr) == nil && b[0] == 0
}

func (s *supervisor) tellStat(c *call, to uint64) answer {
	return s.tell(c, unsafe.Slice((*byte)(unsafe.Pointer(&s.device.st)), unsafe.Sizeof(s.device.st)), to)
}

func (s *supervisor) tell(c *call, what []byte, to uint64) answer {
	s.cfg.Stats.Looks.Add(1)
	if !s.listener.Valid(c.ID) {
		return answer{errno: unix.EIO}
	}
	if err := c.space().WriteAt(what, to); err != nil {
		return answer{errno: unix.EFAULT}
	}
	return answer{}
}
