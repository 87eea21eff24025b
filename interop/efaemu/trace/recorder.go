//go:build linux

package trace

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// Mark is the object of ioctls that only a Recorder knows.
const Mark = 0xfff0

// File is what a Recorder wraps: the emulator's side of an open device file.
type File interface {
	FD() int
	Ioctl(t kernel.Task, cmd, arg uint64) unix.Errno
	Close()
}

// Recorder writes a trace.
type Recorder struct {
	mu    sync.Mutex
	out   *bufio.Writer
	opens int
	err   error
}

// New records into w.
func New(w io.Writer) *Recorder { return &Recorder{out: bufio.NewWriter(w)} }

// Close writes the rest, and returns the first error that there was.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.out.Flush(); r.err == nil {
		r.err = err
	}
	return r.err
}

// Wrap returns f with a record of its use.
func (r *Recorder) Wrap(f File) (File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.FD(), &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	mem, err := unix.Mmap(f.FD(), 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	traced := &file{File: f, r: r, mem: mem, names: newNames(), parts: make(map[uint64]string)}
	if r.opens > 0 {
		traced.prefix = fmt.Sprintf("%d: ", r.opens)
	}
	r.opens++
	traced.line("open")
	return traced, nil
}

// file is one open device file.
type file struct {
	File
	r   *Recorder
	mem []byte // of the device file, to be read alone

	prefix string // of lines: "" of the first file

	// guarded by r.mu
	names *names
	least uint32            // WQEs of a send queue
	parts map[uint64]string // what may be mapped, by its key
	maps  []kernel.Mapping  // as last seen
	bells []*bell
}

// line adds a line. The caller has the lock.
func (f *file) line(format string, args ...any) {
	if _, err := fmt.Fprintf(f.r.out, f.prefix+format+"\n", args...); f.r.err == nil {
		f.r.err = err
	}
}

// Ioctl implements trap.File.
func (f *file) Ioctl(t kernel.Task, cmd, arg uint64) unix.Errno {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.look(t)
	c := read(t.Space(), arg)
	if c != nil && c.head.Object == Mark {
		f.line("-- %d", c.head.Method)
		return f.File.Ioctl(t, cmd, arg)
	}
	e := f.File.Ioctl(t, cmd, arg)
	f.note(t, c, e)
	return e
}

// Close implements trap.File.
func (f *file) Close() {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.File.Close()
	_ = unix.Munmap(f.mem)
	f.mem, f.bells = nil, nil
	f.line("close")
}

// look finds what the program has done without a call of the device.
func (f *file) look(t kernel.Task) {
	if maps, err := t.Maps(); err == nil {
		f.compare(maps)
	}
	for _, b := range f.bells {
		b.look(f)
	}
}

// compare notes the differences of the program's mappings, sorted by names.
func (f *file) compare(maps []kernel.Mapping) {
	var lines []string
	note := func(what string, is, was []kernel.Mapping) {
		for _, m := range is {
			if !slices.Contains(was, m) {
				lines = append(lines, fmt.Sprintf("%s %s", what, f.mapping(m)))
			}
		}
	}
	note("map", maps, f.maps)
	note("unmap", f.maps, maps)
	slices.Sort(lines)
	for _, l := range lines {
		f.line("%s", l)
	}
	f.maps = maps
}

func (f *file) mapping(m kernel.Mapping) string {
	prot := map[int]string{
		unix.PROT_NONE: "nothing", unix.PROT_READ: "read", unix.PROT_WRITE: "write", unix.PROT_READ | unix.PROT_WRITE: "read and write",
	}[m.Prot]
	if prot == "" {
		prot = fmt.Sprintf("protection %d", m.Prot)
	}
	name, how := f.parts[m.Offset], "private"
	if m.Shared {
		how = "shared"
	}
	if name == "" {
		name = fmt.Sprintf("unknown part at %#x", m.Offset)
	}
	return fmt.Sprintf("%s: %d bytes, %s, %s", name, m.Length, prot, how)
}

// note writes a call that is over, and keeps what it has made.
func (f *file) note(t kernel.Task, c *ioctl, e unix.Errno) {
	if c == nil {
		f.line("ioctl with a bad argument = %s", unix.ErrnoName(e))
		return
	}
	how := "ok"
	if e != 0 {
		how = unix.ErrnoName(e)
	}
	if e == 0 {
		c.after(t.Space())
		f.made(c)
	}
	f.line("%s = %s", c, how)
	for i := range c.attrs {
		if text := f.input(c, &c.attrs[i]); text != "" {
			f.line("  %#x: %s", c.attrs[i].ID, text)
		}
	}
	if e == 0 && c.destroys() {
		f.destroyed(c)
	}
}
