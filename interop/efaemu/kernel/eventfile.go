//go:build linux

package kernel

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// keepOwners is how many events a pipe may hold: as many owners are remembered.
const keepOwners = 1 << 20 / abi.CompEventLen

// maxPending is how many events wait outside a pipe that is full. A program that asks
// for more, and reads none, misses some: it has enough to wake up for.
const maxPending = 1 << 16

// eventFile is a descriptor of the program that events can be read from: a
// completion channel or an async file. The program has the read end of a pipe;
// what the pipe doesn't take waits here. Methods may be called from any goroutine.
type eventFile struct {
	dev, ino uint64
	users    int // CQs and QPs, under Context.mu

	mu      sync.Mutex
	file    *os.File // write end
	raw     syscall.RawConn
	fd      int
	pending []event
	owners  []any // of the newest events that went into the pipe, in order
	waiting bool  // a goroutine waits for room
	closed  bool
}

type event struct {
	record []byte
	owner  any // the object that may take it back
}

// newEventFile makes a pipe and gives the program its read end. put gets the
// descriptor before the program can use it.
func newEventFile(t Task, put func(fd int) unix.Errno) (*eventFile, unix.Errno) {
	if e := put(-1); e != 0 { // a descriptor cannot be taken back from a program
		return nil, e
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, unix.ENFILE
	}
	defer unix.Close(p[0])
	var st unix.Stat_t
	if unix.Fstat(p[1], &st) != nil || unix.SetNonblock(p[1], true) != nil {
		_ = unix.Close(p[1])
		return nil, unix.ENFILE
	}
	f := &eventFile{dev: st.Dev, ino: st.Ino, fd: p[1], file: os.NewFile(uintptr(p[1]), "events")}
	raw, err := f.file.SyscallConn()
	if err != nil {
		f.close()
		return nil, unix.ENFILE
	}
	f.raw = raw
	fd, err := t.InstallFD(p[0], true)
	if err != nil {
		f.close()
		return nil, unix.EMFILE
	}
	if e := put(fd); e != 0 {
		f.close()
		return nil, e
	}
	return f, 0
}

// send delivers an event. It doesn't block, and nothing is lost (but see maxPending).
func (f *eventFile) send(record []byte, owner any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.pending) >= maxPending {
		return
	}
	f.pending = append(f.pending, event{record, owner})
	if f.waiting || f.flush(f.fd) {
		return
	}
	f.waiting = true
	go func() {
		_ = f.raw.Write(func(fd uintptr) bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.waiting = !f.closed && !f.flush(int(fd))
			return !f.waiting
		})
	}()
}

// flush writes pending events; false: the pipe is full.
func (f *eventFile) flush(fd int) bool {
	for len(f.pending) > 0 {
		e := f.pending[0]
		switch _, err := unix.Write(fd, e.record); err {
		case nil: // as whole as it is short (PIPE_BUF)
			f.owners = append(f.owners, e.owner)
			if len(f.owners) >= 2*keepOwners {
				f.owners = append(f.owners[:0], f.owners[len(f.owners)-keepOwners:]...)
			}
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		default: // the program has closed it
			f.pending = nil
			return true
		}
		f.pending = f.pending[1:]
	}
	f.pending = nil
	return true
}

// takeBack removes the completion events of owner that the program hasn't read, as a CQ that
// is destroyed does, and returns how many there were.
func (f *eventFile) takeBack(owner any) (n uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0
	}
	unread := f.drain()
	kept := make([]event, 0, len(unread)+len(f.pending))
	for _, e := range append(unread, f.pending...) {
		if e.owner == owner {
			n++
			continue
		}
		kept = append(kept, e)
	}
	f.pending = kept
	if !f.waiting {
		f.flush(f.fd) // no more than was in there
	}
	return n
}

// drain empties the pipe: it holds the newest events of owners.
func (f *eventFile) drain() []event {
	r, err := unix.Open(procFD(f.fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(r)
	var unread []event
	for {
		record := make([]byte, abi.CompEventLen)
		if n, err := unix.Read(r, record); err != nil || n != len(record) {
			break
		}
		unread = append(unread, event{record: record})
	}
	from := max(0, len(f.owners)-len(unread))
	for i, o := range f.owners[from:] {
		unread[i].owner = o
	}
	f.owners = f.owners[:from]
	return unread
}

// unread reports whether the program has closed the descriptor: the read end is
// closed everywhere.
func (f *eventFile) unread() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return true
	}
	p := []unix.PollFd{{Fd: int32(f.fd)}}
	n, err := unix.Poll(p, 0)
	return err == nil && n == 1 && p[0].Revents&unix.POLLERR != 0
}

func (f *eventFile) close() {
	f.mu.Lock()
	f.closed = true
	f.pending = nil
	f.mu.Unlock()
	_ = f.file.Close() // ends the wait for room, too
}
