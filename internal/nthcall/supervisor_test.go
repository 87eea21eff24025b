//go:build linux && (amd64 || arm64)

package nthcall

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
)

// A child marks the beginning and the end of what counts by a call that nobody makes:
// getpriority of markWhich and a phase.
const (
	markWhich = 0x4e7468
	markEnd   = 0
	markBegin = 1
	markCalm  = 2 // nothing fails any more
	markTouch = 3 // the first contact follows
)

// row is one fault: call number NR, or the device's method Method, fails at its N-th time.
type row struct {
	NR     uint32     `json:",omitempty"`
	Method string     `json:",omitempty"`
	N      int        `json:",omitempty"` // from 1; 0: nothing fails
	Errno  unix.Errno `json:",omitempty"`
	Spell  int        `json:",omitempty"` // so many more times after that, until a step has failed
	Touch  bool       `json:",omitempty"` // N counts from the first contact on
	Err    string     `json:",omitempty"` // of a method: which error
}

func (r row) String() string {
	if r.Method != "" {
		return fmt.Sprintf("%s no. %d: %s", r.Method, r.N, r.Err)
	}
	if r.Spell > 0 {
		return fmt.Sprintf("%s no. %d to %d: %s", callName(r.NR), r.N, r.N+r.Spell, unix.ErrnoName(r.Errno))
	}
	return fmt.Sprintf("%s no. %d: %s", callName(r.NR), r.N, unix.ErrnoName(r.Errno))
}

// supervisor counts the calls of a child and has one of them fail.
type supervisor struct {
	listener seccomp.Listener
	done     chan struct{}

	mu     sync.Mutex
	row    row
	counts map[uint32]int
	begun  bool
	calm   bool
	touch  bool
	hit    string   // what the failed call was about; "": it was not made
	recent []string // the calls before it
}

func supervise(l seccomp.Listener) *supervisor {
	s := &supervisor{listener: l, done: make(chan struct{})}
	l.SyncWakeUp()
	go s.serve()
	return s
}

// serve answers until the child has ended.
func (s *supervisor) serve() {
	defer close(s.done)
	defer unix.Close(int(s.listener))
	for {
		var n seccomp.Notification
		if s.listener.Receive(&n) != nil {
			return
		}
		s.listener.Send(s.decide(&n))
	}
}

func (s *supervisor) decide(n *seccomp.Notification) seccomp.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.NR == unix.SYS_GETPRIORITY && n.Args[0] == markWhich {
		s.begun, s.calm = n.Args[1] != markEnd, n.Args[1] == markCalm
		if s.touch = n.Args[1] == markTouch; s.touch && s.row.Touch {
			clear(s.counts)
		}
		return seccomp.Response{ID: n.ID}
	}
	if s.begun {
		s.counts[n.NR]++
		if s.row.N > 0 && s.row.Method == "" && n.NR == s.row.NR && s.fails(s.counts[n.NR]) {
			fd := descriptor(n)
			if s.row.plausible(fd) {
				s.hit = fmt.Sprintf("args %x, fd %s", n.Args, fd)
				return seccomp.Response{ID: n.ID, Err: -int32(s.row.Errno)}
			}
		}
		if s.hit == "" {
			s.recent = append(s.recent, fmt.Sprintf("%s(%x, %x)", callName(n.NR), n.Args[0], n.Args[1]))
		}
	}
	return seccomp.Response{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
}

// fails reports whether the call of the row fails at its nth time.
func (s *supervisor) fails(nth int) bool {
	return !s.calm && (s.touch || !s.row.Touch) && nth >= s.row.N && nth <= s.row.N+s.row.Spell
}

// plausible reports whether a call on a descriptor may give the error number. EAGAIN comes
// from what is not ready, which files always are; nobody signals an event 2^64 times, so
// its write has no error at all; and bytes go into a FIFO that has room.
func (r row) plausible(fd string) bool {
	write := r.NR == unix.SYS_WRITE || r.NR == unix.SYS_WRITEV
	switch {
	case r.Errno != unix.EAGAIN && r.Errno != unix.EIO:
		return true
	case strings.HasPrefix(fd, "socket:"):
		return r.Errno == unix.EAGAIN
	case strings.HasPrefix(fd, "anon_inode:"):
		return r.Errno == unix.EAGAIN && !write
	default:
		return r.Errno == unix.EIO
	}
}

// descriptor is what the first argument of a call is, if it is a descriptor.
func descriptor(n *seccomp.Notification) string {
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.TID, int32(n.Args[0])))
	if err != nil {
		return "none"
	}
	return to
}

// set prepares for a round.
func (s *supervisor) set(r row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row, s.counts, s.hit, s.recent = r, make(map[uint32]int), "", nil
}

// seen is what the last round called, and what its fault was about.
func (s *supervisor) seen() (counts map[uint32]int, hit string, recent []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	recent = s.recent
	if len(recent) > 8 {
		recent = recent[len(recent)-8:]
	}
	return maps.Clone(s.counts), s.hit, recent
}
