//go:build linux

package kernel

import (
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// Commands count what programs have asked of the device, since it was made: the counters
// that the driver shows in sysfs.
type Commands struct {
	Completed uint64
	Failed    uint64 // of Completed
	// Of the failed ones, those that were to make an object.
	PDs, MRs, AHs, CQs, QueuePairs, Contexts uint64
}

// commandCounts are a device's Commands while it counts.
type commandCounts struct {
	completed, failed                 atomic.Uint64
	pds, mrs, ahs, cqs, qps, contexts atomic.Uint64
}

// Commands returns the counts so far.
func (d *Device) Commands() Commands {
	n := &d.commands
	return Commands{
		Completed: n.completed.Load(), Failed: n.failed.Load(),
		PDs: n.pds.Load(), MRs: n.mrs.Load(), AHs: n.ahs.Load(), CQs: n.cqs.Load(), QueuePairs: n.qps.Load(), Contexts: n.contexts.Load(),
	}
}

// note counts a command that has ended with e. A probe for the way of commands (ENOSPC) has
// not reached the device.
func (n *commandCounts) note(l *call, e unix.Errno) {
	if e == unix.ENOSPC {
		return
	}
	n.completed.Add(1)
	if e == 0 {
		return
	}
	n.failed.Add(1)
	switch l.id {
	case methodID{abi.ObjectDevice, abi.DeviceGetContext}:
		n.contexts.Add(1)
	case methodID{abi.ObjectCQ, abi.CQCreate}:
		n.cqs.Add(1)
	case methodID{abi.ObjectQP, abi.QPCreate}:
		n.qps.Add(1)
	case methodID{abi.ObjectMR, abi.MRRegDMABuf}:
		n.mrs.Add(1)
	case methodID{abi.ObjectDevice, abi.DeviceInvokeWrite}:
		switch l.u32(abi.InvokeWriteCmd) {
		case abi.CmdAllocPD:
			n.pds.Add(1)
		case abi.CmdRegMR:
			n.mrs.Add(1)
		case abi.CmdCreateAH:
			n.ahs.Add(1)
		}
	}
}
