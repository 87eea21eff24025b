//go:build linux

package trace

import (
	"fmt"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// names are the symbols of a file: objects of each kind count from 0 as they are made.
type names struct {
	count   map[string]int
	handles map[handle]string
	keys    map[uint32]string // lkeys, of 24 bits
	rkeys   map[uint32]string
	qpns    map[uint16]string
	ahns    map[uint16]string
	regions map[string]region // by name
}

type handle struct {
	object uint16 // abi.Object...
	number uint64 // handle or descriptor
}

// region is memory that was registered.
type region struct {
	name     string
	start, n uint64
}

func newNames() *names {
	return &names{
		count: make(map[string]int), handles: make(map[handle]string),
		keys: make(map[uint32]string), rkeys: make(map[uint32]string),
		qpns: make(map[uint16]string), ahns: make(map[uint16]string), regions: make(map[string]region),
	}
}

// next is the symbol of a new object.
func (n *names) next(kind string) string {
	s := fmt.Sprintf("%s%d", kind, n.count[kind])
	n.count[kind]++
	return s
}

func (n *names) make(kind string, object uint16, number uint64) string {
	s := n.next(kind)
	n.handles[handle{object, number}] = s
	return s
}

// object is the symbol of a handle.
func (n *names) object(object uint16, number uint64) string {
	if s := n.handles[handle{object, number}]; s != "" {
		return s
	}
	return fmt.Sprintf("%d?", number)
}

// of is a symbol of a table.
func of[K uint16 | uint32](table map[K]string, k K) string {
	if s := table[k]; s != "" {
		return s
	}
	return fmt.Sprintf("%#x?", k)
}

// address is an address in a region; outside of all it says so.
func (n *names) address(addr uint64) string {
	for _, r := range n.regions {
		if addr >= r.start && addr-r.start < r.n {
			return fmt.Sprintf("%s+%#x", r.name, addr-r.start)
		}
	}
	return "outside"
}

// pointer is an address that means something to the program alone.
func pointer(v uint64) string {
	if v == 0 {
		return "none"
	}
	return "pointer"
}

// made keeps what a call has made.
func (f *file) made(c *ioctl) {
	n := f.names
	switch {
	case c.is(abi.ObjectDevice, abi.DeviceGetContext):
		var r abi.ContextResp
		_ = r.Parse(c.out(abi.AttrUHWOut, abi.ContextRespLen))
		f.least = uint32(r.MinSQ)
	case c.cmd == abi.CmdAllocPD:
		n.make("pd", abi.ObjectPD, uint64(le.Uint32(c.out(abi.InvokeCoreOut, 4))))
	case c.cmd == abi.CmdCompChannel:
		n.make("channel", abi.ObjectCompChannel, uint64(le.Uint32(c.out(abi.InvokeCoreOut, 4))))
	case c.is(abi.ObjectAsyncEvent, abi.AsyncEventAlloc):
		n.make("async", abi.ObjectAsyncEvent, c.number())
	case c.cmd == abi.CmdRegMR:
		n.registered(c)
	case c.cmd == abi.CmdCreateAH:
		n.make("ah", abi.ObjectAH, uint64(le.Uint32(c.out(abi.InvokeCoreOut, 4))))
		var r abi.CreateAHResp
		_ = r.Parse(c.out(abi.AttrUHWOut, abi.CreateAHRespLen))
		if n.ahns[r.Number] == "" {
			n.ahns[r.Number] = n.next("ahn")
		}
	case c.is(abi.ObjectCQ, abi.CQCreate):
		f.madeCQ(c)
	case c.is(abi.ObjectQP, abi.QPCreate):
		f.madeQP(c)
	}
}

// number is the handle or descriptor that a method makes or ends: each has it as attribute 0.
// If it is not there, the result is one that cannot be.
func (c *ioctl) number() uint64 {
	if a := c.find(abi.DestroyHandle); a != nil {
		return a.Data
	}
	return 1<<64 - 1
}

func (n *names) registered(c *ioctl) {
	var in abi.RegMR
	var out abi.RegMRResp
	_ = in.Parse(c.out(abi.InvokeCoreIn, abi.RegMRLen))
	_ = out.Parse(c.out(abi.InvokeCoreOut, abi.RegMRRespLen))
	s := n.make("mr", abi.ObjectMR, uint64(out.Handle))
	n.keys[out.LKey&abi.LKeyMask], n.rkeys[out.RKey] = s, s
	n.regions[s] = region{name: s, start: in.IOVA, n: in.Length}
}

// destroyed forgets an object. Symbols of its numbers stay until another has them.
func (f *file) destroyed(c *ioctl) {
	n, h := f.names, handle{c.head.Object, c.number()}
	s := n.handles[h]
	delete(n.handles, h)
	delete(n.regions, s)
	kept := f.bells[:0]
	for _, b := range f.bells {
		if b.owner != s {
			kept = append(kept, b)
		}
	}
	f.bells = kept
}
