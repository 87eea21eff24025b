//go:build linux && (amd64 || arm64)

package trap

import (
	"errors"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// DevicePath is where programs find the device.
const DevicePath = "/dev/infiniband/uverbs0"

// Stats count the calls that were trapped.
type Stats struct {
	Opens   atomic.Uint64 // of the device
	Looks   atomic.Uint64 // stat, fstat... of the device
	Ioctls  atomic.Uint64
	Writes  atomic.Uint64 // in strict mode
	Through atomic.Uint64 // about something else
}

// supervisor serves the calls of one filter.
type supervisor struct {
	cfg      *Config
	listener seccomp.Listener
	sessions *sessions
	device   deviceStat
	counters *counters
	inFlight sync.WaitGroup
}

// answer is the outcome of a call.
type answer struct {
	val   int64
	errno unix.Errno
	pass  bool // let the kernel do it
}

var pass = answer{pass: true}

// handler serves one kind of system call.
type handler func(*supervisor, *call) answer

// call is one call while it is served.
type call struct {
	seccomp.Notification
	listener seccomp.Listener
}

// space is the caller's memory, while it waits: a thread's number is sufficient.
func (c *call) space() memory.Space { return memory.Process(int(c.TID)) }

// serve answers calls until no process is left. Each has a goroutine: one that
// waits, perhaps for a page that its program holds back, must not hold up others.
func (s *supervisor) serve() error {
	defer s.inFlight.Wait()
	for {
		c := &call{listener: s.listener}
		if err := s.listener.Receive(&c.Notification); err != nil {
			if errors.Is(err, seccomp.ErrNoTargets) {
				return nil
			}
			return err
		}
		s.inFlight.Go(func() { s.finish(c, s.handle(c)) })
	}
}

func (s *supervisor) handle(c *call) answer {
	if h := calls[c.NR]; h != nil {
		return h(s, c)
	}
	switch c.NR {
	case unix.SYS_IOCTL:
		return s.ioctl(c)
	case unix.SYS_WRITE:
		return s.write(c)
	}
	return pass
}

func (s *supervisor) finish(c *call, a answer) {
	if a.pass {
		s.cfg.Stats.Through.Add(1)
		s.listener.Send(seccomp.Response{ID: c.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
		return
	}
	s.listener.Send(seccomp.Response{ID: c.ID, Val: a.val, Err: -int32(a.errno)})
}

// isDevice reports whether the string at addr is the device's path. It reads no more
// than that takes; a bad address is the kernel's to refuse.
func (c *call) isDevice(addr uint64) bool {
	path, err := memory.String(c.space(), addr, len(DevicePath)+1)
	return err == nil && path == DevicePath
}

func (s *supervisor) ioctl(c *call) answer {
	ses := s.sessions.of(int(c.TID), int32(c.Args[0]))
	if ses == nil {
		return pass
	}
	t, err := newTask(c, ses)
	if err != nil || !s.listener.Valid(c.ID) || !ses.enter() {
		return answer{errno: unix.EIO} // there is no caller to see it
	}
	defer ses.leave()
	s.cfg.Stats.Ioctls.Add(1)
	return answer{errno: ses.file.Ioctl(t, uint64(uint32(c.Args[1])), c.Args[2])}
}

// write is trapped in strict mode: the old way to give commands would go into the
// memfd. The kernel would carry the command out; here it is refused (uverbs).
func (s *supervisor) write(c *call) answer {
	ses := s.sessions.of(int(c.TID), int32(c.Args[0]))
	if ses == nil {
		return pass
	}
	s.cfg.Stats.Writes.Add(1)
	s.cfg.Findings.Add("legacy-write", ses.name, "process %d gives a command of %d bytes by write(2)", c.TID, c.Args[2])
	return answer{errno: unix.EINVAL}
}
