package script

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// ErrRefused is a scripted device's error for a post that it is to refuse.
var ErrRefused = errors.New("script: post refused")

// Device is a device of one queue pair whose other side is the test.
type Device struct {
	device.Base
	info    device.Info
	qp      *QP
	regions *nic.Regions
	keys    uint64 // this many were given out
}

var _ device.Device = (*Device)(nil)

// NewDevice makes a device with the given abilities; zero ones get EFA's.
func NewDevice(info device.Info) *Device {
	if info.Name == "" {
		info.Name = "script"
	}
	if info.GID == (device.GID{}) {
		info.GID = GID(0)
	}
	if info.MTU == 0 {
		info.MTU = 8760
	}
	if info.MaxRDMA == 0 {
		info.MaxRDMA = 1 << 30
	}
	info.MaxSQ, info.MaxRQ, info.MaxQP = 4096, 4096, 1
	d := &Device{info: info}
	d.regions = nic.NewRegions(nic.RegionsConfig{Base: 1 << 40, Key: func() uint64 {
		d.keys++
		return d.keys
	}})
	return d
}

// GID is the link-local address of the host with the given number.
func GID(host byte) device.GID { return device.GID{0: 0xfe, 1: 0x80, 15: host + 1} }

// Info implements device.Device.
func (d *Device) Info() device.Info { return d.info }

// Close implements device.Device.
func (d *Device) Close() error { return nil }

// Register implements device.Device. Keys count from 1 and addresses from 1<<40.
func (d *Device) Register(mem []byte, a device.Access) (device.MR, error) {
	return d.regions.Register(mem, a)
}

// Alloc implements device.Device.
func (d *Device) Alloc(n int, a device.Access) (device.MR, error) {
	return d.regions.Alloc(n, a)
}

// OpenQP implements device.Device: there is one queue pair.
func (d *Device) OpenQP(c device.QPConfig) (device.QP, error) {
	if d.qp != nil {
		return nil, device.ErrQPNInUse
	}
	q := &QP{
		dev: d, qpn: max(c.QPN, 1), qkey: c.QKey, sq: c.SQDepth, place: c.Place,
		slots: make([][]byte, c.RQDepth), posted: make([]bool, c.RQDepth),
		ahs: make(map[device.GID]device.AH),
	}
	for i := range q.slots {
		q.slots[i] = make([]byte, d.info.MTU)
	}
	d.qp = q
	return q, nil
}

// QP is the queue pair. Refused requests and errors of its user are in Faults.
type QP struct {
	device.QPBase
	dev    *Device
	qpn    uint16
	qkey   uint32
	sq     int // depth
	place  device.Placer
	closed bool

	ahs  map[device.GID]device.AH
	gids []device.GID // by address handle

	ringing []*Sent // posted since the last doorbell
	sent    []*Sent // all that went out
	flying  int     // of them without a completion, or not gone out yet
	refuse  []error // answers to the next posts, nil: accept

	slots  [][]byte
	posted []bool
	order  []int32 // posted slots, oldest first

	comps  []device.Completion
	poison string    // the method that panics
	memory []*Memory // of the other sides

	// Placed is how many payloads went to their place.
	Placed int
	// RefuseAHs is how many of the next address handles are refused.
	RefuseAHs int
	// Beats is the pulse of all peers' processes.
	Beats uint32
	// HeldBack are the queue pairs that are held back.
	HeldBack []string
	// ShutOut are those that are refused for good.
	ShutOut []string
	// Faults are the queue pair's user's violations of the device's rules.
	Faults []string
}

var _ device.QP = (*QP)(nil)

func (q *QP) fault(format string, args ...any) {
	q.Faults = append(q.Faults, fmt.Sprintf(format, args...))
}

// QPN implements device.QP.
func (q *QP) QPN() uint16 { return q.qpn }

// Pulse implements device.QP: of all peers the same.
func (q *QP) Pulse(device.AH, uint16) (uint32, bool) { return q.Beats, q.dev.info.Pulse }

// Shut implements device.QP. It takes note alone, as HoldBack does.
func (q *QP) Shut(ah device.AH, qpn uint16, _ uint32) error {
	switch {
	case !q.dev.info.HoldsBack:
		return device.ErrNotSupported
	case int(ah) >= len(q.gids):
		return device.ErrBadAH
	}
	q.ShutOut = append(q.ShutOut, fmt.Sprintf("%d of %s", qpn, q.gids[ah]))
	return nil
}

// HoldBack implements device.QP. It takes note alone: what is injected comes all the same.
func (q *QP) HoldBack(ah device.AH, qpn uint16, on bool, _ uint32) error {
	switch {
	case !q.dev.info.HoldsBack:
		return device.ErrNotSupported
	case int(ah) >= len(q.gids):
		return device.ErrBadAH
	}
	name := fmt.Sprintf("%d of %s", qpn, q.gids[ah])
	q.HeldBack = slices.DeleteFunc(q.HeldBack, func(s string) bool { return s == name })
	if on {
		q.HeldBack = append(q.HeldBack, name)
	}
	return nil
}

// CreateAH implements device.QP.
func (q *QP) CreateAH(gid device.GID) (device.AH, error) {
	q.enter("CreateAH")
	if q.RefuseAHs > 0 {
		q.RefuseAHs--
		return 0, ErrRefused
	}
	ah, ok := q.ahs[gid]
	if !ok {
		ah = device.AH(len(q.gids))
		q.gids = append(q.gids, gid)
		q.ahs[gid] = ah
	}
	return ah, nil
}

// DestroyAH implements device.QP. The handle lives on, as on a device with another
// user of it.
func (q *QP) DestroyAH(ah device.AH) error {
	if int(ah) >= len(q.gids) {
		return device.ErrBadAH
	}
	return nil
}

// RecvSlots implements device.QP.
func (q *QP) RecvSlots() int { return len(q.slots) }

// RecvBytes implements device.QP.
func (q *QP) RecvBytes(slot int) []byte { return q.slots[slot] }

// PostRecv implements device.QP.
func (q *QP) PostRecv(slots []int32) {
	q.enter("PostRecv")
	for _, s := range slots {
		if q.posted[s] {
			q.fault("receive slot %d posted twice", s)
			continue
		}
		q.posted[s] = true
		q.order = append(q.order, s)
		clear(q.slots[s]) // a late reader finds no data
	}
}

// Posted is the number of receive slots that the device has.
func (q *QP) Posted() int { return len(q.order) }

// Doorbell implements device.QP.
func (q *QP) Doorbell() {
	q.enter("Doorbell")
	for _, s := range q.ringing {
		if s.stays && !bytes.Equal(s.payload, s.Bytes[len(s.Bytes)-len(s.payload):]) {
			q.fault("payload of packet %d changed before the doorbell", s.N)
		}
	}
	q.sent = append(q.sent, q.ringing...)
	q.ringing = q.ringing[:0]
}

// Poison makes every call of a method panic.
func (q *QP) Poison(method string) { q.poison = method }

func (q *QP) enter(method string) {
	if q.poison == method {
		panic("script: a bug in " + method)
	}
}

// Fail reports the end of the queue pair.
func (q *QP) Fail(st device.Status) {
	q.comps = append(q.comps, device.Completion{Op: device.OpFatal, Status: st})
}

// Poll implements device.QP.
func (q *QP) Poll(c []device.Completion) int {
	q.enter("Poll")
	n := copy(c, q.comps)
	q.comps = q.comps[n:]
	return n
}

// Arm implements device.QP.
func (q *QP) Arm() bool {
	q.enter("Arm")
	return len(q.comps) == 0
}

// FDs implements device.QP.
func (q *QP) FDs() []int { return nil }

// Close implements device.QP.
func (q *QP) Close() error {
	q.closed, q.comps = true, nil
	q.enter("Close")
	return nil
}

// Closed reports whether the endpoint has closed the queue pair.
func (q *QP) Closed() bool { return q.closed }
