//go:build linux && (amd64 || arm64)

package trap

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// fileID identifies an open file's inode.
type fileID struct{ dev, ino uint64 }

// session is one open(2) of the device. It lives until the program's last
// descriptor and mapping of it are gone.
type session struct {
	name  string
	file  File
	id    fileID
	wd    int    // of its watch
	ended func() // closes the file

	mu    sync.Mutex
	calls int
	gone  bool
}

// enter holds the file open for an ioctl. False: it is closed.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false
	}
	s.calls++
	return true
}

func (s *session) leave() {
	s.mu.Lock()
	s.calls--
	last := s.gone && s.calls == 0
	s.mu.Unlock()
	if last {
		s.ended()
	}
}

// end closes the file, if necessary after the last call in progress: its thread has
// been killed.
func (s *session) end() {
	s.mu.Lock()
	last := !s.gone && s.calls == 0
	s.gone = true
	s.mu.Unlock()
	if last {
		s.ended()
	}
}

// sessions are all of a supervisor's. The memfd of each is opened a second time, for
// the program: the kernel reports the close of that open file when no descriptor and
// no mapping of any process refers to it any more, however they ended. (A program
// that opens /proc/self/fd/N of its descriptor, where a real device would be opened
// anew, loses the session when it closes that.)
type sessions struct {
	notify *os.File
	done   chan struct{}

	mu   sync.Mutex
	made int
	live int // those whose file is not closed yet
	byID map[fileID]*session
	byWD map[int]*session
}

// memfd names in /proc
const (
	namePrefix = "uverbs0."
	linkPrefix = "/memfd:" + namePrefix
)

func newSessions() (*sessions, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("trap: inotify: %w", err)
	}
	s := &sessions{
		notify: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}),
		byID: map[fileID]*session{}, byWD: map[int]*session{},
	}
	go s.watch()
	return s, nil
}

// open makes a session and returns the descriptor to give away.
func (s *sessions) open(dev Device, flags int) (fd int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	ses := &session{name: fmt.Sprintf("%s%d", namePrefix, s.made)}
	if ses.file, err = dev.Open(ses.name); err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			ses.file.Close()
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(ses.file.FD(), &st); err != nil {
		return -1, err
	}
	ses.id = fileID{st.Dev, st.Ino}
	path := fmt.Sprintf("/proc/self/fd/%d", ses.file.FD())
	rc, err := s.notify.SyscallConn()
	if err != nil {
		return -1, err
	}
	if cerr := rc.Control(func(n uintptr) {
		ses.wd, err = unix.InotifyAddWatch(int(n), path, unix.IN_CLOSE)
	}); cerr != nil || err != nil {
		return -1, fmt.Errorf("trap: watch: %w", errnoOf(err))
	}
	if fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0); err != nil {
		_ = rc.Control(func(n uintptr) { _, _ = unix.InotifyRmWatch(int(n), uint32(ses.wd)) })
		return -1, err
	}
	s.byID[ses.id], s.byWD[ses.wd] = ses, ses
	s.live++
	ses.ended = func() {
		ses.file.Close()
		s.mu.Lock()
		s.live--
		s.mu.Unlock()
	}
	return fd, nil
}

// of is the session of descriptor fd of a thread, or nil if that is another file.
// The name is checked first: that does not access the file, which could be on a
// file system that does not answer. Any program can make a memfd of that name.
func (s *sessions) of(tid int, fd int32) *session {
	link := fmt.Sprintf("/proc/%d/fd/%d", tid, fd)
	var name [len(linkPrefix)]byte
	n, err := unix.Readlink(link, name[:])
	if err != nil || string(name[:n]) != linkPrefix {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(link, &st); err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[fileID{st.Dev, st.Ino}]
}

// watch ends sessions as they are closed, until the descriptor is.
func (s *sessions) watch() {
	defer close(s.done)
	buf := make([]byte, 4096)
	for {
		n, err := s.notify.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int(int32(binary.NativeEndian.Uint32(b))), binary.NativeEndian.Uint32(b[4:])
			b = b[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])):]
			if mask&unix.IN_CLOSE != 0 {
				s.closed(wd)
			}
		}
	}
}

// closed ends the session of a watch.
func (s *sessions) closed(wd int) {
	s.mu.Lock()
	ses := s.byWD[wd]
	if ses != nil {
		delete(s.byWD, wd)
		delete(s.byID, ses.id)
	}
	s.mu.Unlock()
	if ses == nil {
		return
	}
	if rc, err := s.notify.SyscallConn(); err == nil {
		_ = rc.Control(func(n uintptr) { _, _ = unix.InotifyRmWatch(int(n), uint32(wd)) })
	}
	ses.end()
}

// drainTime is plenty for the events that the kernel has queued, on a busy machine
// too.
const drainTime = 10 * time.Second

// drain waits until the closes of processes that are gone have been heard of.
func (s *sessions) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for ctx.Err() == nil {
		s.mu.Lock()
		live := s.live
		s.mu.Unlock()
		if live == 0 {
			return
		}
		_, _ = unix.Poll(nil, 1)
	}
}

// close ends the remaining sessions: none, once the last process is gone and its
// closes were reported.
func (s *sessions) close() {
	_ = s.notify.Close()
	<-s.done
	for wd := range s.byWD {
		s.closed(wd)
	}
}
