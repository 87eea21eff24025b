package sys

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
)

// WaitEvent waits until the read end of an event is readable, or for d at most; a negative d: without limit. It reports
// whether the end is readable; a signal may end it sooner.
func WaitEvent(r int, d time.Duration) bool {
	fds, limit := [1]unix.PollFd{{Fd: int32(r), Events: unix.POLLIN}}, (*unix.Timespec)(nil)
	if d >= 0 {
		ts := unix.NsecToTimespec(int64(d))
		limit = &ts
	}
	n, err := unix.Ppoll(fds[:], limit, nil)
	return err == nil && n > 0
}

// Yield lets another thread of this CPU run, without the Go scheduler.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// OpenEvent returns the two ends of an event, which are one descriptor here: an eventfd.
func OpenEvent() (r, w int, err error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return fd, fd, err
}

// SignalEvent makes the read end readable. The raw system call cannot block and, being
// short, need not tell the Go scheduler.
func SignalEvent(w int) {
	one := uint64(1)
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(w), uintptr(unsafe.Pointer(&one)), 8)
		if errno != unix.EINTR {
			return // EAGAIN: the counter is full, so it is readable
		}
	}
}

// DrainEvent makes the read end unreadable again.
func DrainEvent(r int) {
	var n uint64
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(r), uintptr(unsafe.Pointer(&n)), 8)
}

// napMost is up to where a sleep is a system call of its own: Go's timers, in a process that is otherwise idle, are
// not finer than 1 ms.
const napMost = 2 * time.Millisecond

// WaitSet is what one goroutine at a time sleeps on: a bell, as [OpenEvent] returns it, and other descriptors.
//
// The set is an epoll descriptor. [WaitSet.Nap] sleeps on it in a system call, [WaitSet.Wait] in Go's poller, so that the
// process has no thread in a system call, for which Go's runtime would look every 20 us.
type WaitSet struct {
	ep, bell int
	outer    int // holds ep, and is what is in Go's poller, so that only Wait rouses that
	file     *os.File
	conn     syscall.RawConn
	fds      []int // the other descriptors
	gen      uint64
	watched  bool // and not set aside
	rang     bool
	look     func(uintptr) bool // readyOrArmed, made once
	events   [8]unix.EpollEvent
}

// Open makes the set, of a bell alone.
func (w *WaitSet) Open(bell int) (err error) {
	if w.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	w.bell, w.look = bell, w.readyOrArmed
	if w.outer, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return errors.Join(err, unix.Close(w.ep))
	}
	_ = unix.SetNonblock(w.outer, true) // so that Go's poller takes it
	w.file = os.NewFile(uintptr(w.outer), "epoll")
	w.conn, err = w.file.SyscallConn()
	err = errors.Join(err, control(w.ep, unix.EPOLL_CTL_ADD, bell, unix.EPOLLIN), control(w.outer, unix.EPOLL_CTL_ADD, w.ep, unix.EPOLLONESHOT),
		w.file.SetReadDeadline(time.Time{})) // an error: it is not in Go's poller
	if err != nil {
		return errors.Join(err, w.Close())
	}
	return nil
}

// Watch makes fds those that end a sleep besides the bell. One goroutine at a time may call it, also while another
// sleeps. Descriptors that were closed since the last call may come again, as others, with another gen only. It reports
// false if the system has no room for them: who sleeps then must look again soon.
func (w *WaitSet) Watch(fds []int, gen uint64) bool {
	if w.watched && w.gen == gen && slices.Equal(w.fds, fds) {
		return true
	}
	w.SetAside()
	w.fds, w.gen, w.watched = append(w.fds[:0], fds...), gen, true
	for _, fd := range fds {
		if control(w.ep, unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN) != nil {
			w.SetAside()
			return false
		}
	}
	return true
}

// SetAside has the descriptors of Watch end no sleep until Watch is called. It costs a short system call for each.
func (w *WaitSet) SetAside() {
	if w.watched {
		for _, fd := range w.fds {
			_ = control(w.ep, unix.EPOLL_CTL_DEL, fd, 0) // unless it was closed; left in the set it would tell of its other end's death
		}
		w.watched = false
	}
}

// control is short, as SignalEvent is.
func control(ep, op, fd int, events uint32) error {
	e := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if _, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(ep), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&e)), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// Wait sleeps until the bell rings, a descriptor that is watched is readable, or d is over; a negative d: without
// limit. It silences the bell, and reports whether it rang.
func (w *WaitSet) Wait(d time.Duration) (rang bool) {
	w.rang = false
	if Await(d >= 0, w.pending) {
		d = 0
	}
	if d >= 0 && d < napMost {
		return w.nap(d)
	}
	var limit time.Time
	if d >= 0 {
		limit = clock.Deadline(d)
	}
	_ = w.file.SetReadDeadline(limit) // it has worked in Open
	_ = w.conn.Read(w.look)           // the deadline
	return w.rang
}

// Nap is Wait in a system call, which the thread does not leave: for short sleeps, and for goroutines that keep to their
// thread.
func (w *WaitSet) Nap(d time.Duration) (rang bool) {
	w.rang = false
	if Await(d >= 0, w.pending) {
		d = 0
	}
	return w.nap(d)
}

func (w *WaitSet) nap(d time.Duration) (rang bool) {
	if d < 0 {
		n, err := unix.EpollWait(w.ep, w.events[:], -1)
		w.note(n, err == nil)
		return w.rang
	}
	if WaitEvent(w.ep, d) { // whose time is finer
		w.ready()
	}
	return w.rang
}

// pending is ready, and changes nothing.
func (w *WaitSet) pending() bool { return WaitEvent(w.ep, 0) }

// readyOrArmed is ready, and if there is none it has the next reason rouse Go's poller.
func (w *WaitSet) readyOrArmed(uintptr) bool {
	return w.ready() || control(w.outer, unix.EPOLL_CTL_MOD, w.ep, unix.EPOLLIN|unix.EPOLLONESHOT) != nil
}

// ready reports whether there is a reason to wake.
func (w *WaitSet) ready() bool {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(w.ep), uintptr(unsafe.Pointer(&w.events)), uintptr(len(w.events)), 0, 0, 0)
	return w.note(int(n), errno == 0)
}

// note silences the bell if it is one of n events, and reports whether there are any.
func (w *WaitSet) note(n int, ok bool) bool {
	if !ok {
		return false
	}
	for _, e := range w.events[:n] {
		if int(e.Fd) == w.bell {
			DrainEvent(w.bell)
			w.rang = true
		}
	}
	return n > 0
}

// Close gives the descriptors back. No goroutine may sleep.
func (w *WaitSet) Close() error { return errors.Join(w.file.Close(), unix.Close(w.ep)) }
