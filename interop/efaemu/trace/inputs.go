//go:build linux

package trace

import (
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// input is what an input says; "": it is an output.
func (f *file) input(c *ioctl, a *attr) string {
	n := f.names
	if c.output(a.ID) {
		return ""
	}
	if a.Len == 0 {
		return n.object(c.kindOf(a.ID), a.Data)
	}
	if a.value == nil {
		return "bad address"
	}
	if c.is(abi.ObjectCQ, abi.CQCreate) && a.ID == abi.CreateCQUserHandle ||
		c.is(abi.ObjectQP, abi.QPCreate) && a.ID == abi.CreateQPUserHandle {
		return pointer(a.Data)
	}
	if c.is(abi.ObjectDevice, abi.DeviceInvokeWrite) && a.ID == abi.InvokeCoreIn {
		return dump(a.value, n.command(c.cmd, a.value)...)
	}
	return dump(a.value)
}

// kindOf is the object that a handle or a descriptor means.
func (c *ioctl) kindOf(id uint16) uint16 {
	switch {
	case c.is(abi.ObjectCQ, abi.CQCreate) && id == abi.CreateCQChannel:
		return abi.ObjectCompChannel
	case c.is(abi.ObjectCQ, abi.CQCreate) && id == abi.CreateCQAsync, c.is(abi.ObjectQP, abi.QPCreate) && id == abi.CreateQPAsync:
		return abi.ObjectAsyncEvent
	case c.is(abi.ObjectQP, abi.QPCreate) && (id == abi.CreateQPSendCQ || id == abi.CreateQPRecvCQ):
		return abi.ObjectCQ
	case c.is(abi.ObjectQP, abi.QPCreate) && id == abi.CreateQPPD, c.is(abi.ObjectMR, abi.MRRegDMABuf) && id == abi.DMABufPD:
		return abi.ObjectPD
	}
	return c.head.Object
}

// command are the symbols of a write command's input.
func (n *names) command(cmd uint64, b []byte) []symbol {
	object := func(at int, kind uint16) symbol { return symbol{at, 4, n.object(kind, uint64(le.Uint32(b[at:])))} }
	response := func() symbol { // the room for it, where commands are written and not asked for by ioctl
		return symbol{0, 8, "-"}
	}
	switch {
	case cmd == abi.CmdRegMR && len(b) >= abi.RegMRLen:
		return []symbol{
			response(), {8, 8, n.address(le.Uint64(b[8:]))}, {24, 8, n.address(le.Uint64(b[24:]))}, object(32, abi.ObjectPD),
		}
	case cmd == abi.CmdModifyQP && len(b) >= abi.ModifyQPLen:
		return []symbol{object(64, abi.ObjectQP)}
	case cmd == abi.CmdQueryQP && len(b) >= abi.QueryQPLen:
		return []symbol{response(), object(8, abi.ObjectQP)}
	case cmd == abi.CmdCreateAH && len(b) >= abi.CreateAHLen:
		return []symbol{response(), {8, 8, pointer(le.Uint64(b[8:]))}, object(16, abi.ObjectPD), {24, 16, "gid"}}
	case (cmd == abi.CmdAllocPD || cmd == abi.CmdCompChannel) && len(b) >= abi.WriteCmdLen:
		return []symbol{response()}
	}
	return nil
}
