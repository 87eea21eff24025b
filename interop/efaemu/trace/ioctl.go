//go:build linux

package trace

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

var le = binary.LittleEndian

// ioctl is one call, as it was made.
type ioctl struct {
	head  abi.Header
	attrs []attr
	addr  uint64
	cmd   uint64 // of a write command
}

// attr is an attribute with what it points to.
type attr struct {
	abi.Attr
	value []byte // before the call; of an output after it
}

// read reads a call; nil: there is none.
func read(s memory.Space, addr uint64) *ioctl {
	var b [abi.HeaderLen]byte
	c := &ioctl{addr: addr}
	if s.ReadAt(b[:], addr) != nil || c.head.Parse(b[:]) != nil || c.head.Attrs > abi.MaxIoctl/abi.AttrLen {
		return nil
	}
	for i := range uint64(c.head.Attrs) {
		var a attr
		var b [abi.AttrLen]byte
		if s.ReadAt(b[:], addr+abi.HeaderLen+i*abi.AttrLen) != nil {
			return nil
		}
		_ = a.Parse(b[:])
		a.load(s)
		c.attrs = append(c.attrs, a)
	}
	if a := c.find(abi.InvokeWriteCmd); c.is(abi.ObjectDevice, abi.DeviceInvokeWrite) && a != nil {
		c.cmd = a.Data
	}
	return c
}

// load reads the value.
func (a *attr) load(s memory.Space) {
	if a.Len <= abi.AttrInline {
		a.value = le.AppendUint64(nil, a.Data)[:max(a.Len, 0)]
	} else if a.value = make([]byte, a.Len); s.ReadAt(a.value, a.Data) != nil {
		a.value = nil
	}
}

// after reads what the kernel has written.
func (c *ioctl) after(s memory.Space) {
	for i := range c.attrs {
		var b [abi.AttrLen]byte
		a := &c.attrs[i]
		if s.ReadAt(b[:], c.addr+abi.HeaderLen+uint64(i)*abi.AttrLen) != nil {
			continue
		}
		var now abi.Attr
		_ = now.Parse(b[:])
		a.Data = now.Data // a new handle
		if !c.output(a.ID) || a.Len == 0 {
			continue
		}
		if a.value = make([]byte, a.Len); s.ReadAt(a.value, a.Data) != nil {
			a.value = nil
		}
	}
}

func (c *ioctl) is(object, method uint16) bool {
	return c.head.Object == object && c.head.Method == method
}

func (c *ioctl) find(id uint16) *attr {
	for i := range c.attrs {
		if c.attrs[i].ID == id {
			return &c.attrs[i]
		}
	}
	return nil
}

// out is the value of an attribute, zeros where it is shorter than n.
func (c *ioctl) out(id uint16, n int) []byte {
	b := make([]byte, n)
	if a := c.find(id); a != nil {
		copy(b, a.value)
	}
	return b
}

// destroys reports whether the call ends an object.
func (c *ioctl) destroys() bool {
	return c.is(abi.ObjectPD, abi.PDDestroy) || c.is(abi.ObjectAH, abi.AHDestroy) || c.is(abi.ObjectMR, abi.MRDestroy) ||
		c.is(abi.ObjectCQ, abi.CQDestroy) || c.is(abi.ObjectQP, abi.QPDestroy)
}

// outputs are the attributes that the kernel fills, by object and method.
var outputs = map[[2]uint16][]uint16{
	{abi.ObjectDevice, abi.DeviceInvokeWrite}:   {abi.InvokeCoreOut},
	{abi.ObjectDevice, abi.DeviceGetContext}:    {abi.ContextCompVectors, abi.ContextCoreSupport},
	{abi.ObjectDevice, abi.DeviceQueryPort}:     {abi.QueryPortResp},
	{abi.ObjectDevice, abi.DeviceQueryGIDEntry}: {abi.GIDEntryResp},
	{abi.ObjectCQ, abi.CQCreate}:                {abi.CreateCQRespDepth},
	{abi.ObjectCQ, abi.CQDestroy}:               {abi.DestroyResp},
	{abi.ObjectQP, abi.QPCreate}:                {abi.CreateQPRespCaps, abi.CreateQPRespNumber},
	{abi.ObjectQP, abi.QPDestroy}:               {abi.DestroyResp},
	{abi.ObjectMR, abi.MRRegDMABuf}:             {abi.DMABufLKey, abi.DMABufRKey},
}

func (c *ioctl) output(id uint16) bool {
	if id == abi.AttrUHWOut {
		return true
	}
	for _, o := range outputs[[2]uint16{c.head.Object, c.head.Method}] {
		if o == id {
			return true
		}
	}
	return false
}

// String names the call and its attributes with their lengths.
func (c *ioctl) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d.%d %s:", c.head.Object, c.head.Method, c.name())
	for _, a := range c.attrs {
		fmt.Fprintf(&b, " %#x(%d)", a.ID, a.Len)
		switch {
		case a.Flags == 0 && a.Selector == 0:
			b.WriteString("optional")
		case a.Flags != abi.FlagMandatory || a.Selector != 0:
			fmt.Fprintf(&b, "flags=%#x,selector=%d", a.Flags, a.Selector)
		}
	}
	if c.head.Driver != abi.DriverEFA || c.head.Reserved1 != 0 || c.head.Reserved2 != 0 || !c.head.Whole() {
		fmt.Fprintf(&b, " header %+v", c.head)
	}
	return b.String()
}

func (c *ioctl) name() string { return Name(c.head.Object, c.head.Method, c.cmd) }
