//go:build linux

package kernel

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// command is a command of the old write interface, which travels in an ioctl.
type command struct {
	req, resp int // least bytes of core input and output
	run       func(*call) unix.Errno
}

// commands are those that EFA's driver implements and that have no method of
// their own, or are asked for in this way by existing programs.
var commands = map[uint32]command{
	abi.CmdQueryDevice:   {abi.WriteCmdLen, abi.DeviceAttrBaseLen, (*call).queryDevice},
	abi.CmdQueryDeviceEx: {abi.ExCmdLen, abi.DeviceAttrMinLen, (*call).queryDevice},
	abi.CmdAllocPD:       {abi.WriteCmdLen, 4, (*call).allocPD},
	abi.CmdRegMR:         {abi.RegMRLen, abi.RegMRRespLen, (*call).regMR},
	abi.CmdCompChannel:   {abi.WriteCmdLen, 4, (*call).createChannel},
	abi.CmdCreateAH:      {abi.CreateAHLen, 4, (*call).createAH},
	abi.CmdModifyQP:      {abi.ModifyQPLen, 0, (*call).modifyQP},
	abi.CmdQueryQP:       {abi.QueryQPLen, abi.QueryQPRespLen, (*call).queryQP},
}

// invokeWrite carries a command out. A program that probes whether this works
// sends one that is too short, and looks for ENOSPC.
func (l *call) invokeWrite() unix.Errno {
	n, e := l.number(abi.InvokeWriteCmd, math.MaxUint32)
	if e != 0 {
		return e
	}
	if n&^(abi.CmdExtended|abi.CmdMask) != 0 {
		return unix.EINVAL
	}
	cmd, ok := commands[uint32(n)]
	switch {
	case !ok:
		return unix.EOPNOTSUPP
	case l.size(abi.InvokeCoreIn) < cmd.req || l.size(abi.InvokeCoreOut) < cmd.resp:
		return unix.ENOSPC
	}
	return cmd.run(l)
}

// core reads a command's input of n bytes; longer input must end in zeros.
func (l *call) core(n int) ([]byte, unix.Errno) {
	if v := l.get(abi.InvokeCoreIn); v != nil {
		if e := l.zeros(v, n); e != 0 {
			return nil, e
		}
	}
	return l.in(abi.InvokeCoreIn, n)
}

// begin is the first step of each command that makes an object.
func (l *call) begin() unix.Errno {
	if !l.c.have {
		return unix.EINVAL
	}
	l.handle = l.c.objects.next()
	return 0
}

// named finds the object of a handle in a command. Kernels up to 6.1 return EINVAL
// for every error in it.
func (l *call) named(h uint32, kind uint16) (object, unix.Errno) {
	o, e := l.c.objects.get(uint64(h), kind)
	if e != 0 && l.c.dev.cfg.Profile.Kernel == profile.Linux61 {
		e = unix.EINVAL
	}
	return o, e
}
