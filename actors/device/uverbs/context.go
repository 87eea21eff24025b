//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// errLies: the kernel or the device said what cannot be.
var errLies = errors.New("uverbs: the device says what cannot be")

// context is an open device file: what the device can do, and a protection domain.
type context struct {
	kernel Kernel
	file   File

	// What the device said when it was opened.
	limits  abi.ContextResp
	vectors uint32 // for the interrupts of completion queues
	core    abi.DeviceAttr
	efa     abi.DeviceResp
	mtu     int
	gid     device.GID
	pd      uint32

	unsolicited bool // writes with immediate data take no receive

	gone atomic.Bool // the device was taken away: what is freed is freed already

	mu        sync.Mutex
	cmd       *command
	abandoned [][]byte // memory that the device may still use
	held      [][]byte // the same, of callers': the garbage collector leaves it alone
}

// openContext opens a device file and does everything that comes before the first
// object of a user.
func openContext(k Kernel, path string) (c *context, err error) {
	c = &context{kernel: k}
	if c.cmd, err = newCommand(k); err != nil {
		return nil, err
	}
	if c.file, err = k.Open(path); err != nil {
		return nil, errors.Join(err, k.Unmap(c.cmd.page))
	}
	for _, step := range []func() error{c.handshake, c.query, c.queryPort, c.queryGID, c.allocPD} {
		if err := step(); err != nil {
			return nil, errors.Join(fmt.Errorf("uverbs: %s: %w", path, err), c.closeFile())
		}
	}
	return c, nil
}

// handshake tells the kernel what limits this driver heeds, and learns them.
func (c *context) handshake() error {
	in := abi.ContextCmd{Caps: abi.CapTxBatch | abi.CapMinSQ}
	c.cmd.begin(abi.ObjectDevice, abi.DeviceGetContext)
	vectors := c.cmd.out(abi.ContextCompVectors, 4)
	_ = c.cmd.out(abi.ContextCoreSupport, 8) // optional rights, which nobody asks for
	c.cmd.in(abi.AttrUHWIn, in.Append(nil))
	out := c.cmd.out(abi.AttrUHWOut, abi.ContextRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("get context: %w", err)
	}
	c.vectors = le.Uint32(vectors)
	r := &c.limits
	_ = r.Parse(out)
	switch {
	case r.Udata&abi.UdataCreateAH == 0:
		return fmt.Errorf("%w: the kernel gives no numbers of address handles: it is too old", device.ErrNotSupported)
	case r.SubCQs == 0 || r.SubCQs > maxSubCQs, r.MaxLLQ < abi.WQELen, int(r.Inline) > abi.MaxInline:
		return fmt.Errorf("%w: %+v", errLies, *r)
	}
	return nil
}

// maxSubCQs bounds the rings of a completion queue.
const maxSubCQs = 64

// query asks for the device's limits.
func (c *context) query() error {
	c.cmd.write(abi.CmdQueryDeviceEx, make([]byte, abi.ExCmdLen))
	core := c.cmd.out(abi.InvokeCoreOut, abi.DeviceAttrLen)
	out := c.cmd.out(abi.AttrUHWOut, abi.DeviceRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("query device: %w", err)
	}
	_, _ = c.core.Parse(core), c.efa.Parse(out)
	if c.efa.MaxSQ == 0 || c.efa.MaxRQ == 0 || c.efa.MaxSGESQ == 0 || c.efa.MaxSGERQ == 0 || c.core.MaxCQE == 0 {
		return fmt.Errorf("%w: %+v", errLies, c.efa)
	}
	return nil
}

func (c *context) queryPort() error {
	var port abi.PortAttr
	c.cmd.begin(abi.ObjectDevice, abi.DeviceQueryPort)
	c.cmd.u64(abi.QueryPortNumber, abi.PortNumber)
	out := c.cmd.out(abi.QueryPortResp, abi.PortAttrLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("query port: %w", err)
	}
	_ = port.Parse(out)
	if port.MaxMsg < minMTU || port.MaxMsg > maxMTU { // a descriptor has 16 bits for it
		return fmt.Errorf("%w: an MTU of %d bytes", errLies, port.MaxMsg)
	}
	if c.mtu = int(port.MaxMsg); port.State != abi.PortActive {
		return fmt.Errorf("port %d is not active but in state %d: %w", abi.PortNumber, port.State, unix.ENETDOWN)
	}
	return nil
}

// Bounds of the MTU.
const (
	minMTU = 256
	maxMTU = 1<<16 - 1
)

func (c *context) queryGID() error {
	var entry abi.GIDEntry
	c.cmd.begin(abi.ObjectDevice, abi.DeviceQueryGIDEntry)
	c.cmd.u64(abi.GIDEntryPort, abi.PortNumber)
	c.cmd.u64(abi.GIDEntryIndex, 0)
	c.cmd.u32(abi.GIDEntryFlags, 0)
	out := c.cmd.out(abi.GIDEntryResp, abi.GIDEntryLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("query GID: %w", err)
	}
	_ = entry.Parse(out)
	if c.gid = entry.GID; c.gid == (device.GID{}) {
		return fmt.Errorf("%w: it has no GID", errLies)
	}
	return nil
}

func (c *context) allocPD() error {
	c.cmd.write(abi.CmdAllocPD, make([]byte, abi.WriteCmdLen))
	handle := c.cmd.out(abi.InvokeCoreOut, 4)
	_ = c.cmd.out(abi.AttrUHWOut, abi.AllocPDRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return fmt.Errorf("protection domain: %w", err)
	}
	c.pd = le.Uint32(handle)
	return nil
}

// destroy frees an object; out is how many bytes the kernel answers.
func (c *context) destroy(what string, object, method uint16, handle uint32, out int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cmd.begin(object, method)
	c.cmd.object(abi.DestroyHandle, uint64(handle))
	if out > 0 {
		_ = c.cmd.out(abi.DestroyResp, out)
	}
	err := c.cmd.run(c.file)
	if err == nil || errors.Is(err, unix.EIO) && c.gone.Load() {
		return nil
	}
	return fmt.Errorf("uverbs: destroy %s: %w", what, err)
}

// abandon keeps memory that the device may still write to, because a command that would
// have ended that has failed, until the device is closed.
func (c *context) abandon(mem []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = append(c.abandoned, mem)
}

// hold is abandon for memory of a caller's, which is not unmapped.
func (c *context) hold(mem []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = append(c.held, mem)
}

// close gives everything back.
func (c *context) close() error {
	err := c.destroy("protection domain", abi.ObjectPD, abi.PDDestroy, c.pd, 0)
	return errors.Join(err, c.closeFile())
}

// closeFile closes the file, with which the kernel frees every object that is left.
func (c *context) closeFile() error {
	errs := []error{c.file.Close(), c.kernel.Unmap(c.cmd.page)}
	for _, mem := range c.abandoned {
		errs = append(errs, c.kernel.Unmap(mem))
	}
	c.abandoned, c.held = nil, nil
	return errors.Join(errs...)
}
