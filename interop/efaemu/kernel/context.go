//go:build linux

package kernel

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Context is one open of the device file. Any goroutine may call its methods.
type Context struct {
	dev   *Device
	arena *arena

	mu       sync.Mutex
	have     bool // the program has a ucontext: before, most calls fail
	closed   bool
	removed  bool
	objects  table
	channels []*eventFile
	asyncs   []*eventFile
}

// FD is the device file. It stays the context's: a front-end opens it anew through
// /proc/self/fd.
func (c *Context) FD() int { return c.arena.fd }

// Region is a range of the device file that may be mapped.
type Region struct {
	Key, Length uint64 // whole pages
	Prot        int    // what a program needs: unix.PROT_READ or PROT_WRITE
}

// Region finds the range that begins at key.
func (c *Context) Region(key uint64) (Region, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.arena.used[key]
	if r == nil {
		return Region{}, false
	}
	return r.Region, true
}

// Close frees everything: the last descriptor and the last mapping are gone.
func (c *Context) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	c.release()
	c.arena.close()
	d := c.dev
	d.mu.Lock()
	delete(d.contexts, c)
	d.live.Contexts--
	d.mu.Unlock()
}

// closeOrder is that of section "destroy": objects before those that they use.
var closeOrder = [...]uint16{abi.ObjectQP, abi.ObjectAH, abi.ObjectMR, abi.ObjectCQ, abi.ObjectPD}

// release frees the objects.
func (c *Context) release() {
	for _, kind := range closeOrder {
		for i, o := range c.objects.all {
			if o != nil && o.kind() == kind {
				o.close(nil)
				c.objects.remove(uint32(i))
			}
		}
	}
	for _, f := range c.channels {
		f.close()
		c.dev.give(&c.dev.live.Channels)
	}
	for _, f := range c.asyncs {
		f.close()
		c.dev.give(&c.dev.live.AsyncFiles)
	}
	c.channels, c.asyncs = nil, nil
}

// remove does to a context what the removal of a device does.
func (c *Context) remove() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.removed {
		return
	}
	c.removed = true
	for _, f := range c.asyncs {
		e := abi.AsyncEvent{Element: abi.PortNumber, Type: abi.EventDeviceFatal}
		f.send(e.Append(nil), nil)
	}
	c.release()
	c.arena.clear()
}

// found notes an action that a strict kernel would have refused.
func (c *Context) found(rule, where, format string, args ...any) {
	c.dev.cfg.Findings.Add(rule, where, format, args...)
}

// sweep forgets event files that the program has closed.
func (c *Context) sweep(files []*eventFile, live *int) []*eventFile {
	kept := files[:0]
	for _, f := range files {
		if f.users == 0 && f.unread() {
			f.close()
			c.dev.give(live)
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// eventFile finds the file of descriptor fd, which is one of files.
func (c *Context) eventFile(t Task, files []*eventFile, data uint64) (*eventFile, unix.Errno) {
	fd := int32(data)
	if int64(fd) != int64(data) {
		return nil, unix.EINVAL
	}
	if fd < 0 {
		return nil, unix.EBADF
	}
	dev, ino, err := t.StatFD(int(fd))
	if err != nil {
		return nil, unix.EBADF
	}
	for _, f := range files {
		if f.dev == dev && f.ino == ino {
			return f, 0
		}
	}
	return nil, unix.EBADF
}
