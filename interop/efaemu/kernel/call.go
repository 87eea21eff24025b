//go:build linux

package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

var le = binary.LittleEndian

// call is one ioctl under way.
type call struct {
	c    *Context
	task Task
	mem  memory.Space
	addr uint64 // of the header
	id   methodID
	m    *method
	args []arg16 // as m.attrs

	handle uint32 // of the object that the call makes
	made   object // it
}

// arg16 is an attribute that the program has given.
type arg16 struct {
	present bool
	index   int // among the program's
	attr    abi.Attr
	obj     object
	file    *eventFile
}

// where names the call in findings.
func (l *call) where() string { return fmt.Sprintf("ioctl %d.%d", l.id.object, l.id.method) }

// get is the attribute id; nil: not given.
func (l *call) get(id uint16) *arg16 {
	if n := l.m.find(id); n >= 0 && l.args[n].present {
		return &l.args[n]
	}
	return nil
}

// size is the length of the attribute, 0 if it isn't given.
func (l *call) size(id uint16) int {
	if v := l.get(id); v != nil {
		return int(v.attr.Len)
	}
	return 0
}

// at reads n bytes at off of an input.
func (l *call) at(v *arg16, off, n int) ([]byte, unix.Errno) {
	b := make([]byte, n)
	if v.attr.Len <= abi.AttrInline {
		var data [8]byte
		le.PutUint64(data[:], v.attr.Data)
		copy(b, data[min(off, 8):])
		return b, 0
	}
	if n > 0 && l.mem.ReadAt(b, v.attr.Data+uint64(off)) != nil {
		return nil, unix.EFAULT
	}
	return b, 0
}

// in reads an input into n bytes: missing bytes are zeros.
func (l *call) in(id uint16, n int) ([]byte, unix.Errno) {
	v := l.get(id)
	if v == nil {
		return make([]byte, n), 0
	}
	b, e := l.at(v, 0, min(n, int(v.attr.Len)))
	if e != 0 {
		return nil, e
	}
	return append(b, make([]byte, n-len(b))...), 0
}

// zeros reports EOPNOTSUPP unless the input is all zeros from byte off on.
func (l *call) zeros(v *arg16, off int) unix.Errno {
	if int(v.attr.Len) <= off {
		return 0
	}
	b, e := l.at(v, off, int(v.attr.Len)-off)
	if e != 0 {
		return e
	}
	if len(bytes.Trim(b, "\x00")) != 0 {
		return unix.EOPNOTSUPP
	}
	return 0
}

// u32 is an inline input.
func (l *call) u32(id uint16) uint32 { return uint32(l.u64(id)) }

// u64 is an inline input, 0 if it isn't given.
func (l *call) u64(id uint16) uint64 {
	if v := l.get(id); v != nil {
		return v.attr.Data
	}
	return 0
}

// number is an input of 8 bytes that must be at most most.
func (l *call) number(id uint16, most uint64) (uint64, unix.Errno) {
	if n := l.u64(id); n <= most {
		return n, 0
	}
	return 0, unix.EINVAL
}

// flags is an input of 4 or 8 bytes.
func (l *call) flags(id uint16, known uint32) (uint32, unix.Errno) {
	f := l.u64(id)
	switch l.size(id) {
	case 0:
		return 0, 0
	case 4:
		f &= 1<<32 - 1
	case 8:
	default:
		return 0, unix.EINVAL
	}
	if f&^uint64(known) != 0 {
		return 0, unix.EINVAL
	}
	return uint32(f), 0
}

// out writes an output, cut to the program's room, and reports the length to it. It
// does nothing for an optional one that isn't given.
func (l *call) out(id uint16, b []byte) unix.Errno {
	v := l.get(id)
	if v == nil {
		return 0
	}
	b = b[:min(len(b), int(v.attr.Len))]
	if len(b) > 0 && l.mem.WriteAt(b, v.attr.Data) != nil {
		return unix.EFAULT
	}
	return l.valid(id)
}

// outAll writes an output, and zeros behind it.
func (l *call) outAll(id uint16, b []byte) unix.Errno {
	return l.out(id, append(b, make([]byte, max(0, l.size(id)-len(b)))...))
}

// valid sets the flag that an output has been filled.
func (l *call) valid(id uint16) unix.Errno {
	v := l.get(id)
	f := le.AppendUint16(nil, v.attr.Flags|abi.FlagOutput)
	if l.mem.WriteAt(f, l.attrAddr(v)+abi.AttrFlagsOff) != nil {
		return unix.EFAULT
	}
	return 0
}

// putData writes a new handle or descriptor into the attribute itself.
func (l *call) putData(v *arg16, n uint64) unix.Errno {
	if l.mem.WriteAt(le.AppendUint64(nil, n), l.attrAddr(v)+abi.AttrDataOff) != nil {
		return unix.EFAULT
	}
	return 0
}

func (l *call) attrAddr(v *arg16) uint64 {
	return l.addr + abi.HeaderLen + uint64(v.index)*abi.AttrLen
}

// udata reads the driver's input into n bytes. least of them must be there, and
// what is longer must end in zeros: else EINVAL, as EFA's driver has it.
func (l *call) udata(least, n int) ([]byte, unix.Errno) {
	if l.size(abi.AttrUHWIn) < least {
		return nil, unix.EINVAL
	}
	if v := l.get(abi.AttrUHWIn); v != nil {
		switch e := l.zeros(v, n); e {
		case 0:
		case unix.EOPNOTSUPP:
			return nil, unix.EINVAL
		default:
			return nil, e
		}
	}
	return l.in(abi.AttrUHWIn, n)
}

// noUdata is for commands of which the driver takes no input: all must be zeros.
func (l *call) noUdata() unix.Errno {
	_, e := l.udata(0, 0)
	return e
}
