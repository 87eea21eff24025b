package mr

import (
	"unsafe"

	"github.com/efactor/efactor/actors/device"
)

// fakeMR is a device's region of which the test chooses everything.
type fakeMR struct {
	device.MRBase
	mem    []byte
	addr   uint64
	key    uint64
	local  bool // no RDMA of others
	closed int
}

func (m *fakeMR) Bytes() []byte { return m.mem }
func (m *fakeMR) Addr() uint64  { return m.addr }
func (m *fakeMR) LKey() uint32  { return ^uint32(m.key) }
func (m *fakeMR) RKey() uint64  { return m.key }
func (m *fakeMR) Remote() bool  { return !m.local }
func (m *fakeMR) Close() error  { m.closed++; return nil }

var _ device.MR = (*fakeMR)(nil)

const (
	everything = device.LocalWrite | device.RemoteWrite | device.RemoteRead
	readable   = device.RemoteRead
)

// within reports whether all of p lies in mem, byte by byte.
func within(p, mem []byte) bool {
	for i := range p {
		found := false
		for j := range mem {
			found = found || unsafe.Pointer(&p[i]) == unsafe.Pointer(&mem[j])
		}
		if !found {
			return false
		}
	}
	return true
}
