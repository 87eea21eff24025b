//go:build linux

package uverbs

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

var le = binary.LittleEndian

// command is one ioctl after the other, built in a page outside of the Go heap: its
// attributes hold addresses as numbers, which neither the garbage collector nor a stack
// that grows knows of.
//
//	0        24                    abi.MaxIoctl                  pageLen
//	+--------+------+------+-- - --+---------+---------+-- - -----+
//	| header | attr | attr |       | input   | output  |          |
//	+--------+------+------+-- - --+---------+---------+-- - -----+
type command struct {
	page  []byte
	base  uint64
	head  abi.Header
	attrs []abi.Attr
	at    int // where the next argument goes
}

// pageLen has room for the longest command there is here, several times.
const pageLen = 2 * abi.MaxIoctl

func newCommand(k Kernel) (*command, error) {
	page, err := k.Map(pageLen)
	if err != nil {
		return nil, err
	}
	return &command{page: page, base: addressOf(page)}, nil
}

// addressOf is the address of b's first byte.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// begin starts an ioctl.
func (c *command) begin(object, method uint16) {
	c.head = abi.Header{Object: object, Method: method, Driver: abi.DriverEFA}
	c.attrs, c.at = c.attrs[:0], abi.MaxIoctl
}

// write starts a write command, with its core input.
func (c *command) write(cmd uint32, in []byte) {
	c.begin(abi.ObjectDevice, abi.DeviceInvokeWrite)
	c.u64(abi.InvokeWriteCmd, uint64(cmd))
	c.in(abi.InvokeCoreIn, in)
}

func (c *command) add(a abi.Attr) *abi.Attr {
	a.Flags = abi.FlagMandatory
	c.attrs = append(c.attrs, a)
	return &c.attrs[len(c.attrs)-1]
}

// in adds an input.
func (c *command) in(id uint16, b []byte) {
	a := c.add(abi.Attr{ID: id, Len: uint16(len(b))})
	if len(b) <= abi.AttrInline {
		var v [abi.AttrInline]byte
		copy(v[:], b)
		a.Data = le.Uint64(v[:])
		return
	}
	copy(c.place(a, len(b)), b)
}

func (c *command) u32(id uint16, v uint32) { c.add(abi.Attr{ID: id, Len: 4, Data: uint64(v)}) }
func (c *command) u64(id uint16, v uint64) { c.add(abi.Attr{ID: id, Len: 8, Data: v}) }

// out adds an output of n bytes. It is zeroed: a kernel that knows fewer leaves the rest
// alone. It is good until the next begin.
func (c *command) out(id uint16, n int) []byte {
	return c.place(c.add(abi.Attr{ID: id, Len: uint16(n)}), n)
}

// place makes room for an argument. Invariant: there is, since all lengths are constants.
func (c *command) place(a *abi.Attr, n int) []byte {
	b := c.page[c.at : c.at+n : c.at+n]
	clear(b)
	a.Data = c.base + uint64(c.at)
	c.at += (n + 7) &^ 7
	return b
}

// object adds a handle, or a descriptor.
func (c *command) object(id uint16, h uint64) { c.add(abi.Attr{ID: id, Data: h}) }

// optional lets a kernel that does not know the last attribute go without it.
func (c *command) optional() { c.attrs[len(c.attrs)-1].Flags = 0 }

// made adds the handle or descriptor that the command makes. It returns what reads it
// after the command.
func (c *command) made(id uint16) (read func() uint64) { //nolint:unparam // ids are the methods' own, though all are 0
	c.add(abi.Attr{ID: id})
	at := abi.HeaderLen + (len(c.attrs)-1)*abi.AttrLen + abi.AttrDataOff
	return func() uint64 { return le.Uint64(c.page[at:]) }
}

// run makes the ioctl.
func (c *command) run(f File) error {
	c.head.Attrs = uint16(len(c.attrs))
	c.head.Length = uint16(abi.HeaderLen + len(c.attrs)*abi.AttrLen)
	b := c.head.Append(c.page[:0])
	for i := range c.attrs {
		b = c.attrs[i].Append(b)
	}
	for {
		err := f.Ioctl(abi.IoctlVerbs, unsafe.Pointer(unsafe.SliceData(c.page)))
		if !errors.Is(err, unix.EINTR) { // nothing was done
			return err
		}
	}
}
