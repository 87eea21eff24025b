//go:build linux

package kernel

import (
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/faults"
)

// asyncEvents are what programs read of a fault.
var asyncEvents = map[faults.Event]uint32{
	faults.CQError: abi.EventCQError, faults.QPFatal: abi.EventQPFatal, faults.PortDown: abi.EventPortError,
}

// fault does what a plan has for the kernel half.
func (d *Device) fault(e faults.Event) {
	if e == faults.Reset {
		d.Remove()
		return
	}
	for _, c := range d.opened() {
		c.report(asyncEvents[e])
	}
}

// report sends an asynchronous event to all files for them.
func (c *Context) report(kind uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.asyncs {
		e := abi.AsyncEvent{Element: abi.PortNumber, Type: kind}
		f.send(e.Append(nil), nil)
	}
}
