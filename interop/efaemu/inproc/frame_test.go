//go:build linux

package inproc_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// misuse is a call, and the errno that Linux has for it.
type misuse struct {
	name string
	do   func(c *client) error
	want error // nil: it's none
}

func run(t *testing.T, c *client, all []misuse) {
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			c.t = t
			err := m.do(c)
			if m.want == nil {
				require.NoError(t, err)
				return
			}
			require.Equal(t, m.want, err)
		})
	}
	c.t = t
}

func port(attrs ...attr) func(*client) error {
	return func(c *client) error { return c.call(abi.ObjectDevice, abi.DeviceQueryPort, attrs...) }
}

func gid(attrs ...attr) func(*client) error {
	return func(c *client) error { return c.call(abi.ObjectDevice, abi.DeviceQueryGIDEntry, attrs...) }
}

func header(h abi.Header) func(*client) error {
	return func(c *client) error {
		return c.callHeader(h, u64(abi.QueryPortNumber, 1), out(abi.QueryPortResp, make([]byte, abi.PortAttrLen)))
	}
}

func (a attr) with(change func(*attr)) attr {
	change(&a)
	return a
}

func optional(a *attr)  { a.Flags = 0 }
func selector(a *attr)  { a.Selector = 1 }
func length4(a *attr)   { a.Len = 4 }
func badOutput(a *attr) { a.out, a.Data = nil, 8 }
func badInput(a *attr)  { a.in, a.Data = nil, 8 }

// Header and attributes: the rules of the ioctl itself.
func TestFraming(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	query := abi.Header{Object: abi.ObjectDevice, Method: abi.DeviceQueryPort, Driver: abi.DriverEFA}
	with := func(change func(*abi.Header)) func(*client) error {
		h := query
		change(&h)
		return header(h)
	}
	number := u64(abi.QueryPortNumber, 1)
	resp := out(abi.QueryPortResp, make([]byte, abi.PortAttrLen))
	flags := u32(abi.GIDEntryFlags, 0)
	entry := out(abi.GIDEntryResp, make([]byte, abi.GIDEntryLen))
	run(t, c, []misuse{
		{"as it should be", header(query), nil},
		{"another ioctl", func(c *client) error {
			return c.f.Ioctl(0xc0181b02, unsafe.Pointer(&c.page[0]))
		}, unix.ENOTTY},
		{"header nowhere", func(c *client) error { return c.f.Ioctl(abi.IoctlVerbs, nil) }, unix.EFAULT},
		{"length and attributes differ", with(func(h *abi.Header) { h.Length = abi.HeaderLen }), unix.EINVAL},
		{"more attributes than length", with(func(h *abi.Header) { h.Attrs = 3 }), unix.EINVAL},
		{"longer than a page", func(c *client) error {
			n := unix.Getpagesize()/abi.AttrLen + 1
			h := query
			h.Attrs, h.Length = uint16(n), uint16(abi.HeaderLen+n*abi.AttrLen)
			return header(h)(c)
		}, unix.EINVAL},
		{"reserved1", with(func(h *abi.Header) { h.Reserved1 = 1 }), unix.EPROTONOSUPPORT},
		{"reserved2", with(func(h *abi.Header) { h.Reserved2 = 1 }), unix.EPROTONOSUPPORT},
		{"another driver", with(func(h *abi.Header) { h.Driver = 18 }), unix.EINVAL},
		{"unknown object", with(func(h *abi.Header) { h.Object = 99 }), unix.EPROTONOSUPPORT},
		{"object of other drivers", with(func(h *abi.Header) { h.Object = 5 }), unix.EPROTONOSUPPORT},
		{"unknown method", with(func(h *abi.Header) { h.Method = 99 }), unix.EPROTONOSUPPORT},
		{"newer object", with(func(h *abi.Header) { h.Object = abi.ObjectDMABuf }), unix.EPROTONOSUPPORT},

		{"unknown attribute, mandatory", port(number, resp, u32(77, 0)), unix.EPROTONOSUPPORT},
		{"unknown attribute", port(number, resp, u32(77, 0).with(optional)), nil},
		{"attribute twice", port(number, number, resp), unix.EINVAL},
		{"missing input", port(resp), unix.EINVAL},
		{"missing output", port(number), unix.EINVAL},
		{"selector of an input", port(number.with(selector), resp), unix.EINVAL},
		{"selector of an output", port(number, resp.with(selector)), unix.EINVAL},
		{"selector of a handle", func(c *client) error {
			return c.call(abi.ObjectPD, abi.PDDestroy, obj(abi.DestroyHandle, 0).with(selector))
		}, unix.EINVAL},
		{"length of a handle", func(c *client) error {
			return c.call(abi.ObjectPD, abi.PDDestroy, obj(abi.DestroyHandle, 0).with(length4))
		}, unix.EINVAL},
		{"no such handle", func(c *client) error { return c.destroy(abi.ObjectPD, 9) }, unix.ENOENT},
		{"negative handle", func(c *client) error { return c.destroy(abi.ObjectPD, 1<<63) }, unix.EINVAL},
		{"input too short", port(u32(abi.QueryPortNumber, 1), resp), unix.EINVAL},
		{"input too long", port(in(abi.QueryPortNumber, make([]byte, 16)), resp), unix.EINVAL},
		{"input out of range", port(u64(abi.QueryPortNumber, 257), resp), unix.EINVAL},
		{"output too short", port(number, out(abi.QueryPortResp, make([]byte, 47))), unix.EINVAL},
		{"output longer", port(number, out(abi.QueryPortResp, make([]byte, 100))), nil},
		{"output nowhere", port(number, resp.with(badOutput)), unix.EFAULT},
		{"other port", port(u64(abi.QueryPortNumber, 2), resp), unix.EINVAL},

		{"GID of another port", gid(u64(0, 2), u64(1, 0), flags, entry), unix.EINVAL},
		{"second GID", gid(u64(0, 1), u64(1, 1), flags, entry), unix.EINVAL},
		{"GID with flags", gid(u64(0, 1), u64(1, 0), u32(2, 1), entry), unix.EINVAL},
		{"GID with flags of 8 bytes", gid(u64(0, 1), u64(1, 0), u64(2, 0), entry), nil},
		{"GID with flags of 5 bytes", gid(u64(0, 1), u64(1, 0), in(2, make([]byte, 5)), entry), unix.EINVAL},
	})
	found, n := r.findings.Take()
	require.Equal(t, 1, n)
	assert.Equal(t, "attr-unknown: ioctl 0.2: attribute 0x4d is not known", found[0].String())
	c.close()
}

// An output that is longer than the result is filled with zeros, and its flag is
// set; nothing is written after a shorter one of the driver.
func TestOutputs(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	b := make([]byte, 100)
	for i := range b {
		b[i] = 0xff
	}
	require.NoError(t, port(u64(abi.QueryPortNumber, 1), out(abi.QueryPortResp, b))(c))
	assert.Equal(t, make([]byte, 100-abi.PortAttrLen), b[abi.PortAttrLen:])
	assert.EqualValues(t, abi.FlagMandatory|abi.FlagOutput, le.Uint16(c.page[abi.HeaderLen+abi.AttrLen+abi.AttrFlagsOff:]))

	core, uhw := make([]byte, abi.DeviceAttrLen), []byte{0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}
	require.NoError(t, c.command(abi.CmdQueryDeviceEx, make([]byte, 8), core, uhw))
	assert.EqualValues(t, 4096, le.Uint32(uhw[4:]), "cut, not refused")

	short := make([]byte, abi.DeviceAttrMinLen)
	require.NoError(t, c.command(abi.CmdQueryDeviceEx, make([]byte, 8), short, nil))
	assert.EqualValues(t, abi.DeviceAttrMinLen, le.Uint32(short[180:]), "response_length")
	c.close()
}

// Before it has a context a program gets nothing.
func TestNoContext(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.open(t)
	resp := make([]byte, abi.PortAttrLen)
	run(t, c, []misuse{
		{"port", port(u64(0, 1), out(1, resp)), unix.EINVAL},
		{"gid", gid(u64(0, 1), u64(1, 0), u32(2, 0), out(3, make([]byte, 32))), unix.EINVAL},
		{"device", func(c *client) error {
			return c.command(abi.CmdQueryDeviceEx, make([]byte, 8), make([]byte, 304), nil)
		}, unix.EINVAL},
		{"pd", func(c *client) error { _, err := c.pd(); return err }, unix.EINVAL},
		{"mr", func(c *client) error { _, err := c.mr(0, 0); return err }, unix.EINVAL},
		{"ah", func(c *client) error { _, _, err := c.ah(0, r.info.GID); return err }, unix.EINVAL},
		{"cq", func(c *client) error { _, err := c.createCQ(r, cqWant{}); return err }, unix.EINVAL},
		{"qp", func(c *client) error {
			_, err := c.createQP(0, 0, 0, qpWant{})
			return err
		}, unix.EINVAL},
		{"channel", func(c *client) error {
			return c.command(abi.CmdCompChannel, make([]byte, 8), make([]byte, 4), nil)
		}, unix.EINVAL},
		{"async", func(c *client) error {
			var h uint64
			return c.call(abi.ObjectAsyncEvent, abi.AsyncEventAlloc, made(&h))
		}, unix.EINVAL},
		{"no promise about batches", func(c *client) error { return c.context(abi.CapMinSQ, nil) }, unix.EOPNOTSUPP},
		{"outputs nowhere", func(c *client) error {
			return c.call(abi.ObjectDevice, abi.DeviceGetContext, out(abi.ContextCompVectors, make([]byte, 4)).with(badOutput))
		}, unix.EFAULT},
		{"context", func(c *client) error { return c.context(abi.CapTxBatch, nil) }, nil},
		{"a second one", func(c *client) error { return c.context(abi.CapTxBatch, nil) }, unix.EINVAL},
	})
	c.close()

	p := named(t, "strict")
	r = newRig(t, p)
	c = r.open(t)
	require.Equal(t, unix.EOPNOTSUPP, c.context(abi.CapTxBatch, nil), "no promise about small queues")
	var ctx abi.ContextResp
	require.NoError(t, c.context(abi.CapTxBatch|abi.CapMinSQ|1<<7, &ctx), "unknown promises are fine")
	assert.Equal(t, p.MinSQ, ctx.MinSQ)
	assert.EqualValues(t, 80, ctx.InlineEx)
	c.close()
}

// Commands of the write interface.
func TestCommands(t *testing.T) {
	r := newRig(t, profile.Default())
	c := r.ready(t)
	pd := must(c.pd())
	ex := make([]byte, 8)
	device := make([]byte, abi.DeviceAttrLen)
	handle := make([]byte, 4)
	run(t, c, []misuse{
		{"unknown", func(c *client) error { return c.command(60, ex, nil, nil) }, unix.EOPNOTSUPP},
		{"unknown, extended", func(c *client) error { return c.command(abi.CmdExtended|60, ex, nil, nil) }, unix.EOPNOTSUPP},
		{"of shared receive queues", func(c *client) error { return c.command(32, ex, nil, nil) }, unix.EOPNOTSUPP},
		{"bits that are none", func(c *client) error { return c.command(1<<8|abi.CmdAllocPD, ex, nil, nil) }, unix.EINVAL},
		{"more than 32 bits", func(c *client) error {
			return c.call(0, 0, u64(abi.InvokeWriteCmd, 1<<32|abi.CmdAllocPD))
		}, unix.EINVAL},
		{"number of 4 bytes", func(c *client) error {
			return c.call(0, 0, u32(abi.InvokeWriteCmd, abi.CmdAllocPD))
		}, unix.EINVAL},
		{"no number", func(c *client) error { return c.call(0, 0, in(abi.InvokeCoreIn, ex)) }, unix.EINVAL},
		{"input of 3 bytes", func(c *client) error {
			return c.command(abi.CmdAllocPD, ex[:3], handle, nil)
		}, unix.EINVAL},
		{"short input", func(c *client) error { return c.command(abi.CmdAllocPD, ex[:4], handle, nil) }, unix.ENOSPC},
		{"no input", func(c *client) error { return c.command(abi.CmdAllocPD, nil, handle, nil) }, unix.ENOSPC},
		{"short output", func(c *client) error { return c.command(abi.CmdAllocPD, ex, handle[:3], nil) }, unix.ENOSPC},
		{"short device", func(c *client) error { return c.command(abi.CmdQueryDeviceEx, ex, device[:183], nil) }, unix.ENOSPC},
		{"long input, zeros", func(c *client) error {
			return c.command(abi.CmdQueryDeviceEx, make([]byte, 24), device, nil)
		}, nil},
		{"long input", func(c *client) error {
			return c.command(abi.CmdQueryDeviceEx, append(make([]byte, 23), 1), device, nil)
		}, unix.EOPNOTSUPP},
		{"comp mask", func(c *client) error {
			return c.command(abi.CmdQueryDeviceEx, []byte{1, 0, 0, 0, 0, 0, 0, 0}, device, nil)
		}, unix.EINVAL},
		{"reserved", func(c *client) error {
			return c.command(abi.CmdQueryDeviceEx, []byte{0, 0, 0, 0, 1, 0, 0, 0}, device, nil)
		}, unix.EINVAL},
		{"device, driver's input", func(c *client) error {
			return c.command(abi.CmdQueryDeviceEx, ex, device, nil, in(abi.AttrUHWIn, []byte{1}))
		}, unix.EINVAL},
		{"pd, driver's input", func(c *client) error {
			return c.command(abi.CmdAllocPD, ex, handle, nil, in(abi.AttrUHWIn, append(ex, 1)))
		}, unix.EINVAL},
		{"pd, driver's input of zeros", func(c *client) error {
			err := c.command(abi.CmdAllocPD, ex, handle, nil, in(abi.AttrUHWIn, make([]byte, 12)))
			require.NoError(c.t, c.destroy(abi.ObjectPD, uint64(le.Uint32(handle))))
			return err
		}, nil},
		{"pd, output nowhere", func(c *client) error {
			return c.command(abi.CmdAllocPD, ex, nil, nil, out(abi.InvokeCoreOut, handle).with(badOutput))
		}, unix.EFAULT},
		{"pd, driver's output nowhere", func(c *client) error {
			return c.command(abi.CmdAllocPD, ex, handle, nil, out(abi.AttrUHWOut, handle).with(badOutput))
		}, unix.EFAULT},
		{"input nowhere", func(c *client) error {
			m := abi.RegMR{}
			return c.command(abi.CmdRegMR, nil, make([]byte, 12), nil, in(abi.InvokeCoreIn, m.Append(nil)).with(badInput))
		}, unix.EFAULT},
		{"channel, output nowhere", func(c *client) error {
			return c.command(abi.CmdCompChannel, ex, nil, nil, out(abi.InvokeCoreOut, handle).with(badOutput))
		}, unix.EFAULT},
	})
	assert.Equal(t, 1, r.Stats().PDs, "what failed left nothing")
	require.NoError(t, c.destroy(abi.ObjectPD, pd))
	c.close()
}
