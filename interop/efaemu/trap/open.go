//go:build linux && (amd64 || arm64)

package trap

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

func (s *supervisor) open(c *call) answer { return s.openPath(c, c.Args[0], uint64(uint32(c.Args[1]))) }

func (s *supervisor) openat(c *call) answer {
	return s.openPath(c, c.Args[1], uint64(uint32(c.Args[2])))
}

// openat2 reads the flags that open.how begins with. Its other fields, and whether
// they are valid, only matter to the kernel and other files.
func (s *supervisor) openat2(c *call) answer {
	if !c.isDevice(c.Args[1]) || c.Args[3] < unix.SizeofOpenHow {
		s.counters.opened(c, c.Args[1])
		return pass
	}
	var how [8]byte
	if err := c.space().ReadAt(how[:], c.Args[2]); err != nil {
		return pass // EFAULT
	}
	return s.openPath(c, c.Args[1], binary.NativeEndian.Uint64(how[:]))
}

// openPath gives the caller a new session's file if the path is the device's.
func (s *supervisor) openPath(c *call, path, flags uint64) answer {
	if !c.isDevice(path) {
		s.counters.opened(c, path)
		return pass
	}
	switch {
	case flags&unix.O_DIRECTORY != 0:
		return answer{errno: unix.ENOTDIR}
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL:
		return answer{errno: unix.EEXIST}
	}
	s.cfg.Stats.Opens.Add(1)
	fd, err := s.sessions.open(s.cfg.Device, int(flags)&(unix.O_ACCMODE|unix.O_NONBLOCK))
	if err != nil {
		return answer{errno: errnoOf(err)}
	}
	// If the caller has died our copy is the last one, and its close ends the
	// session.
	defer unix.Close(fd)
	n, err := s.listener.Add(c.ID, fd, flags&unix.O_CLOEXEC != 0)
	if err != nil {
		return answer{errno: errnoOf(err)} // EMFILE
	}
	return answer{val: int64(n)}
}

// errnoOf is the errno that a program gets for an error here.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if errors.As(err, &errno) && errno != 0 {
		return errno
	}
	return unix.EIO
}
