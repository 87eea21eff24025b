package engine

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

const keyMask = 1<<24 - 1 // of an lkey

// MR is a memory region.
type MR struct {
	pd           *PD
	space        memory.Space // whose memory it is
	start        uint64
	length, iova uint64
	access       device.Access
	lkey, rkey   uint32
	remote       device.MR // nil: no RDMA reaches it
}

// Register makes length bytes at start known, which requests call iova.
// device.ErrNoMemory: there are too many regions; ErrConfig: no such range. Remote
// rights hold if the device has RDMA into programs and the profile has it, too.
func (p *PD) Register(start, length, iova uint64, a device.Access) (*MR, error) {
	return p.RegisterIn(p.space, start, length, iova, a)
}

// RegisterIn is Register of memory in another space than the program's.
func (p *PD) RegisterIn(space memory.Space, start, length, iova uint64, a device.Access) (*MR, error) {
	if length == 0 || start+length < start || iova+length < iova || int(length) < 0 {
		return nil, fmt.Errorf("%w: region of %d bytes at %#x", ErrConfig, length, start)
	}
	m := &MR{pd: p, space: space, start: start, length: length, iova: iova, access: a}
	if err := p.e.addMR(m); err != nil {
		return nil, err
	}
	rights := p.e.remoteRights(a)
	if rights == 0 {
		return m, nil
	}
	if iova != start {
		p.e.mu.Lock()
		p.e.find(RuleRemoteRegion, fmt.Sprintf("pd %d", p.number), "iova %#x of memory at %#x", iova, start)
		p.e.mu.Unlock()
		return m, nil
	}
	// Not under the lock: a device may wait for copies in progress, and make system
	// calls.
	remote, err := p.e.cfg.Device.RegisterForeign(space.PID(), start, int(length), rights)
	if err != nil {
		m.Close()
		return nil, err
	}
	p.e.mu.Lock()
	m.remote, m.rkey = remote, uint32(remote.RKey())
	p.e.mu.Unlock()
	return m, nil
}

// remoteRights are the rights of others in a region for which the program requests
// a.
func (e *Engine) remoteRights(a device.Access) device.Access {
	if !e.info.Foreign {
		return 0
	}
	if !e.cfg.Profile.RDMARead {
		a &^= device.RemoteRead
	}
	if !e.cfg.Profile.RDMAWrite {
		a &^= device.RemoteWrite
	}
	if a&(device.RemoteRead|device.RemoteWrite) == 0 {
		return 0
	}
	return a
}

// addMR gives m its key. Keys count up, so that a stale one names nothing for long.
func (e *Engine) addMR(m *MR) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if m.pd.closed {
		return fmt.Errorf("%w: closed protection domain", ErrConfig)
	}
	if e.mrs >= limit(e.cfg.Profile.MaxMR, keyMask/2) {
		return fmt.Errorf("%w: %d regions", device.ErrNoMemory, e.mrs)
	}
	for {
		e.lastKey = (e.lastKey + 0x101) & keyMask // odd, so that every number is used
		if e.lastKey != 0 && e.keys[e.lastKey] == nil {
			break
		}
	}
	// Without remote rights the rkey is one that no device gives away, and yet
	// unlike any other: libraries have tables of them.
	m.lkey, m.rkey = e.lastKey, e.lastKey
	e.keys[m.lkey] = m
	e.mrs++
	return nil
}

// LKey is the local key, 24 bits.
func (m *MR) LKey() uint32 { return m.lkey }

// RKey is the remote key; that of a region without remote rights gives access to
// nothing.
func (m *MR) RKey() uint32 { return m.rkey }

// Close ends all access: when it returns, nothing is transferred any more.
func (m *MR) Close() {
	e := m.pd.e
	e.mu.Lock()
	if e.keys[m.lkey] != m {
		e.mu.Unlock()
		return
	}
	delete(e.keys, m.lkey)
	e.mrs--
	remote := m.remote
	m.remote = nil
	e.mu.Unlock()
	if remote != nil {
		_ = remote.Close()
	}
}

// fault is an error about local memory.
type fault uint8

const (
	noFault fault = iota
	badKey
	badRange
	badMemory
)

// Rules that a fault breaks, in a WQE and in a receive.
var (
	wqeRule = [...]string{badKey: RuleWQELKey, badRange: RuleWQERange, badMemory: RuleWQEMemory}
	rxRule  = [...]string{badKey: RuleRxLKey, badRange: RuleRxRange, badMemory: RuleRxMemory}
)

// local finds n bytes at addr of the region lkey for an access that needs the right
// a. Zero bytes lie anywhere.
func (p *PD) local(lkey uint32, addr, n uint64, a device.Access) (in memory.Space, va uint64, f fault) {
	if n == 0 {
		return p.space, 0, noFault
	}
	m := p.e.keys[lkey]
	if m == nil || m.pd != p || m.access&a != a {
		return nil, 0, badKey
	}
	off := addr - m.iova
	if addr < m.iova || off > m.length || n > m.length-off {
		return nil, 0, badRange
	}
	return m.space, m.start + off, noFault
}
