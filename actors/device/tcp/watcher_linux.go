package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// watcher is the epoll descriptor of a queue pair.
type watcher struct{ ep int }

const edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

func (w *watcher) control(op, fd int, events uint32, id, gen int32) error {
	if err := unix.EpollCtl(w.ep, op, fd, &unix.EpollEvent{Events: events, Fd: id, Pad: gen}); err != nil {
		return fmt.Errorf("tcp: epoll: %w", err)
	}
	return nil
}

// add watches a descriptor for input. Its number stands for no connection.
func (w *watcher) add(fd int, id int32) error {
	return w.control(unix.EPOLL_CTL_ADD, fd, unix.EPOLLIN, id, 0)
}

// heed changes whether input of such a descriptor matters.
func (w *watcher) heed(fd int, id int32, on bool) error {
	if on {
		return w.control(unix.EPOLL_CTL_MOD, fd, unix.EPOLLIN, id, 0)
	}
	return w.control(unix.EPOLL_CTL_MOD, fd, 0, id, 0)
}

func (w *watcher) remove(fd int) { _ = unix.EpollCtl(w.ep, unix.EPOLL_CTL_DEL, fd, nil) }
