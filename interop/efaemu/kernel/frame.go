//go:build linux

package kernel

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Ioctl is ioctl(2) on the device file, made by t. 0 is success; the order of the
// checks is that of uverbs, so that of several mistakes the same one is named.
func (c *Context) Ioctl(t Task, cmd, arg uint64) unix.Errno {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd != abi.IoctlVerbs {
		return unix.ENOTTY
	}
	if c.closed {
		return unix.EBADF
	}
	l := call{c: c, task: t, mem: t.Space(), addr: arg}
	var b [abi.HeaderLen]byte
	if l.mem.ReadAt(b[:], arg) != nil {
		return unix.EFAULT
	}
	var h abi.Header
	_ = h.Parse(b[:])
	switch {
	case int(h.Length) > os.Getpagesize() || !h.Whole():
		return unix.EINVAL
	case h.Reserved1 != 0 || h.Reserved2 != 0:
		return unix.EPROTONOSUPPORT
	case c.removed:
		return unix.EIO
	case h.Driver != abi.DriverEFA:
		return unix.EINVAL
	}
	m := methods[methodID{h.Object, h.Method}]
	if m == nil {
		return unix.EPROTONOSUPPORT
	}
	if e := c.dev.cfg.Faults.Command(); e != 0 {
		return e
	}
	l.id, l.m = methodID{h.Object, h.Method}, m
	l.args = make([]arg16, len(m.attrs))
	e := l.run(int(h.Attrs))
	if e == 0 && l.made != nil {
		c.objects.put(l.handle, l.made)
	} else if l.made != nil {
		l.made.close(t)
	}
	return e
}

// run reads n attributes and carries the method out.
func (l *call) run(n int) unix.Errno {
	raw := make([]byte, n*abi.AttrLen)
	if l.mem.ReadAt(raw, l.addr+abi.HeaderLen) != nil {
		return unix.EFAULT
	}
	attrs, _ := abi.ParseAttrs(make([]abi.Attr, 0, n), raw, n) // raw is long enough
	for i := range attrs {
		if e := l.take(i, attrs[i]); e != 0 {
			return e
		}
	}
	for i, s := range l.m.attrs {
		if !s.optional && !l.args[i].present {
			return unix.EINVAL
		}
	}
	if e := l.destroy(); e != 0 {
		return e
	}
	e := l.m.run(l)
	if l.c.dev.commands.note(l, e); e != 0 {
		return e
	}
	if l.get(abi.AttrUHWOut) != nil { // as if the driver had filled it, in any case
		return l.valid(abi.AttrUHWOut)
	}
	return 0
}

// take checks the attribute at index i.
func (l *call) take(i int, a abi.Attr) unix.Errno {
	if a.Flags&^abi.FlagMandatory != 0 {
		l.c.found("attr-flags", l.where(), "attribute %#x: flags %#x", a.ID, a.Flags)
	}
	n := l.m.find(a.ID)
	if n < 0 {
		if a.Flags&abi.FlagMandatory != 0 {
			return unix.EPROTONOSUPPORT
		}
		l.c.found("attr-unknown", l.where(), "attribute %#x is not known", a.ID)
		return 0
	}
	v, s := &l.args[n], &l.m.attrs[n]
	if v.present {
		return unix.EINVAL
	}
	v.index, v.attr = i, a
	if e := l.check(s, v); e != 0 {
		return e
	}
	v.present = true
	return 0
}

// check applies the rules for the attribute's kind ("ioctl framing").
func (l *call) check(s *spec, v *arg16) (e unix.Errno) {
	size, least, most := int(v.attr.Len), s.least, s.most
	if s.what == input && s.grows && size > most {
		if e := l.zeros(v, most); e != 0 {
			return e
		}
	}
	if s.what != input && s.what != output {
		least, most = 0, 0
	}
	if size < least || size > most && !s.grows || v.attr.Selector != 0 {
		return unix.EINVAL
	}
	switch s.what {
	case input, output:
		return 0
	case handle, doomed:
		v.obj, e = l.c.objects.get(v.attr.Data, s.object)
		return e
	case channel:
		v.file, e = l.c.eventFile(l.task, l.c.channels, v.attr.Data)
		return e
	case async:
		v.file, e = l.c.eventFile(l.task, l.c.asyncs, v.attr.Data)
		return e
	default: // fresh, newFile
		if !l.c.have { // an object takes a ucontext
			return unix.EINVAL
		}
		if s.what == newFile { // comes last: it cannot be taken back
			return 0
		}
		l.handle = l.c.objects.next()
		return l.putData(v, uint64(l.handle))
	}
}

// destroy frees the object that the method is there to destroy. It is gone even if
// the method's output cannot be written.
func (l *call) destroy() unix.Errno {
	for i, s := range l.m.attrs {
		if s.what != doomed {
			continue
		}
		o := l.args[i].obj
		if o.busy() {
			return unix.EBUSY
		}
		o.close(l.task)
		l.c.objects.remove(uint32(l.args[i].attr.Data))
	}
	return 0
}
