//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/trace"
	"github.com/efactor/efactor/interop/efaemu/trap"
)

// front is the kernel half as package trap needs it; it can log a line for each
// call, and record all that programs do with the device.
type front struct {
	dev   *kernel.Device
	log   io.Writer       // nil: no log; its Write is called from many goroutines
	trace *trace.Recorder // nil: none
}

// Open implements trap.Device.
func (f *front) Open(name string) (trap.File, error) {
	c, err := f.dev.Open(name)
	if f.log != nil {
		fmt.Fprintf(f.log, "efaemu: %s: open: %v\n", name, outcome(err))
	}
	if err != nil {
		return nil, err
	}
	var file trap.File = c
	if f.log != nil {
		file = &logged{c, name, f.log}
	}
	if f.trace == nil {
		return file, nil
	}
	traced, err := f.trace.Wrap(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	return traced, nil
}

func outcome(err error) any {
	if err == nil {
		return "ok"
	}
	return err
}

type logged struct {
	*kernel.Context
	name string
	log  io.Writer
}

// Ioctl implements trap.File.
func (l *logged) Ioctl(t kernel.Task, cmd, arg uint64) unix.Errno {
	what := describe(t, arg)
	errno := l.Context.Ioctl(t, cmd, arg)
	how := "ok"
	if errno != 0 {
		how = unix.ErrnoName(errno)
	}
	fmt.Fprintf(l.log, "efaemu: %s: process %d: %s: %s\n", l.name, t.Space().PID(), what, how)
	return errno
}

// Close implements trap.File.
func (l *logged) Close() {
	l.Context.Close()
	fmt.Fprintf(l.log, "efaemu: %s: closed\n", l.name)
}

// describe names what an ioctl asks for. The program may change it meanwhile: this
// is for people.
func describe(t kernel.Task, arg uint64) string {
	var b [abi.HeaderLen]byte
	var h abi.Header
	if t.Space().ReadAt(b[:], arg) != nil || h.Parse(b[:]) != nil {
		return "bad address"
	}
	if h.Object == abi.ObjectDevice && h.Method == abi.DeviceInvokeWrite {
		for i := range min(uint64(h.Attrs), 8) {
			var a [abi.AttrLen]byte
			if t.Space().ReadAt(a[:], arg+abi.HeaderLen+i*abi.AttrLen) != nil {
				break
			}
			var attr abi.Attr
			if attr.Parse(a[:]) == nil && attr.ID == abi.InvokeWriteCmd {
				return trace.Name(h.Object, h.Method, attr.Data)
			}
		}
	}
	return trace.Name(h.Object, h.Method, 0)
}
