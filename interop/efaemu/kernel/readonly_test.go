//go:build linux

package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/kernel"
)

// readOnly makes calls whose attributes cannot be written.
type readOnly struct{ *program }

func (r readOnly) call(object, method uint16, attrs ...abi.Attr) unix.Errno {
	p := r.program
	h := abi.Header{
		Object: object, Method: method, Driver: abi.DriverEFA,
		Attrs: uint16(len(attrs)), Length: uint16(abi.HeaderLen + len(attrs)*abi.AttrLen),
	}
	b := h.Append(p.page[:0])
	for i := range attrs {
		b = attrs[i].Append(b)
	}
	require.NoError(p.t, unix.Mprotect(p.page[:unix.Getpagesize()], unix.PROT_READ))
	defer func() {
		require.NoError(p.t, unix.Mprotect(p.page[:unix.Getpagesize()], unix.PROT_READ|unix.PROT_WRITE))
	}()
	return p.ctx.Ioctl(p, abi.IoctlVerbs, p.at(0))
}

// The kernel writes handles, descriptors and flags into the attributes: where that
// fails, nothing is made.
func TestAttributesReadOnly(t *testing.T) {
	p := readOnly{newProgram(t, "efa")}
	at := p.at(unix.Getpagesize())
	port := []abi.Attr{
		{ID: abi.QueryPortNumber, Len: 8, Data: abi.PortNumber},
		{ID: abi.QueryPortResp, Len: abi.PortAttrLen, Data: at},
	}
	assert.Equal(t, unix.EFAULT, p.call(abi.ObjectDevice, abi.DeviceQueryPort, port...))
	assert.Equal(t, unix.EFAULT, p.call(abi.ObjectAsyncEvent, abi.AsyncEventAlloc, abi.Attr{ID: abi.AsyncEventFD}))
	assert.Empty(t, p.fds, "no descriptor: it could not be taken back")
	cmd := abi.CreateCQ{EntrySize: 32, SubCQs: 1}
	cmd.Append(p.page[unix.Getpagesize()+64:][:0])
	assert.Equal(t, unix.EFAULT, p.call(abi.ObjectCQ, abi.CQCreate,
		abi.Attr{ID: abi.CreateCQHandle},
		abi.Attr{ID: abi.CreateCQEntries, Len: 4, Data: 64},
		abi.Attr{ID: abi.CreateCQUserHandle, Len: 8},
		abi.Attr{ID: abi.CreateCQVector, Len: 4},
		abi.Attr{ID: abi.CreateCQRespDepth, Len: 4, Data: at},
		abi.Attr{ID: abi.AttrUHWIn, Len: abi.CreateCQLen, Data: at + 64}))
	assert.Equal(t, kernel.Stats{Contexts: 1}, p.dev.Stats())
	p.full = true
	assert.Equal(t, unix.EMFILE, p.program.call(abi.ObjectAsyncEvent, abi.AsyncEventAlloc, abi.Attr{ID: abi.AsyncEventFD}))
	assert.Equal(t, kernel.Stats{Contexts: 1}, p.dev.Stats())
}

// A header at the end of the program's memory, and its attributes beyond.
func TestAttributesNowhere(t *testing.T) {
	p := newProgram(t, "efa")
	at := len(p.page) - abi.HeaderLen
	h := abi.Header{Method: abi.DeviceQueryPort, Driver: abi.DriverEFA, Length: abi.HeaderLen}
	h.Append(p.page[at:at])
	assert.Equal(t, unix.EINVAL, p.ctx.Ioctl(p, abi.IoctlVerbs, p.at(at)), "none is needed of what follows")
	h.Attrs, h.Length = 2, abi.HeaderLen+2*abi.AttrLen
	h.Append(p.page[at:at])
	assert.Equal(t, unix.EFAULT, p.ctx.Ioctl(p, abi.IoctlVerbs, p.at(at)))
}

// As many channels as there may be, and no more.
func TestManyChannels(t *testing.T) {
	p := newProgram(t, "efa")
	for range 256 {
		require.Zero(t, p.call(abi.ObjectAsyncEvent, abi.AsyncEventAlloc, abi.Attr{ID: abi.AsyncEventFD}))
	}
	assert.Equal(t, unix.EMFILE, p.call(abi.ObjectAsyncEvent, abi.AsyncEventAlloc, abi.Attr{ID: abi.AsyncEventFD}))
	require.Zero(t, p.command(abi.CmdCompChannel, 8, 4))
	for _, fd := range p.fds {
		require.NoError(t, unix.Close(fd))
	}
	p.fds = nil
	require.Zero(t, p.call(abi.ObjectAsyncEvent, abi.AsyncEventAlloc, abi.Attr{ID: abi.AsyncEventFD}))
	assert.Equal(t, 1, p.dev.Stats().AsyncFiles)
}
