package engine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
)

// odd is a device whose queue pairs do and say what a test wants.
type odd struct {
	device.Device
	qp      *oddQP // the last one
	foreign error
	remote  device.MR
}

func (d *odd) OpenQP(c device.QPConfig) (device.QP, error) {
	q, err := d.Device.OpenQP(c)
	if err != nil {
		return nil, err
	}
	d.qp = &oddQP{QP: q}
	return d.qp, nil
}

func (d *odd) Info() device.Info {
	i := d.Device.Info()
	i.Foreign = true
	return i
}

func (d *odd) RegisterForeign(int, uint64, int, device.Access) (device.MR, error) {
	return d.remote, d.foreign
}

type oddQP struct {
	device.QP
	refuse error // of the next PostSend
	noAH   error
	comps  []device.Completion
}

func (q *oddQP) CreateAH(g device.GID) (device.AH, error) {
	if q.noAH != nil {
		return device.UnknownAH, q.noAH
	}
	return q.QP.CreateAH(g)
}

func (q *oddQP) PostSend(wr *device.SendWR) error {
	if err := q.refuse; err != nil {
		q.refuse = nil
		return err
	}
	return q.QP.PostSend(wr)
}

func (q *oddQP) Poll(c []device.Completion) int {
	n := copy(c, q.comps)
	q.comps = q.comps[n:]
	return n + q.QP.Poll(c[n:])
}

func oddProg(t *testing.T) (*world, *odd, *prog) {
	w := newWorld(t, options{})
	d, err := w.fab.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true})
	require.NoError(t, err)
	o := &odd{Device: d, foreign: device.ErrNoMemory}
	e := w.engine(options{engine: engine.Config{Device: o}})
	p := w.newProg(e, progConfig{access: device.LocalWrite})
	p.gid = d.Info().GID
	return w, o, p
}

// An error of the device's post is a completion, except for a full queue.
func TestDeviceRefuses(t *testing.T) {
	w, o, p := oddProg(t)
	for err, want := range map[error]device.Status{
		device.ErrTooLong:      device.StatusLocalBadLength,
		device.ErrBadAH:        device.StatusInvalidAH,
		device.ErrNotSupported: device.StatusUnsupportedOp,
		device.ErrClosed:       device.StatusQPInternal,
		errors.New("else"):     device.StatusQPInternal,
		device.ErrQueueFull:    device.StatusOK,
	} {
		for op := range abi.WorkOp(3) {
			p.buffer(1, 10)
			wqe := rdma(p, p, op, p.mem.base(), 5)
			if op == abi.WorkSend {
				wqe = piece(p, p, p.sge(p.mem.base(), 5))
			}
			o.qp.refuse = err
			p.post(wqe)
			w.run()
			var status []device.Status
			for _, c := range p.poll() {
				if c.Queue == abi.SendQueue {
					status = append(status, device.Status(c.Status))
				}
			}
			if want == device.StatusOK && op != abi.WorkSend { // the region's key gives no access
				want = device.StatusBadAddress
			}
			require.Equal(t, []device.Status{want}, status, "%v, op %d", err, op)
			p.close()
			p = w.newProg(p.e, progConfig{access: device.LocalWrite})
			p.gid = o.Info().GID
		}
	}
	o.qp.noAH = device.ErrNoMemory
	p.post(p.to(p, inline(1, nil)))
	assert.Equal(t, device.StatusInvalidAH, p.status())
	w.clean()
}

// Impossible events of a device are dropped, and its events about others are
// ignored.
func TestDeviceLies(t *testing.T) {
	w, o, p := oddProg(t)
	p.buffer(1, 10)
	o.qp.comps = []device.Completion{
		{Op: device.OpSend, ID: 0},
		{Op: device.OpSend, ID: 1 << 40},
		{Op: device.OpSend, ID: ^uint64(0)},
		{Op: device.OpRecv, ID: 1 << 50, Len: 1},
		{Op: device.OpRecv, ID: device.NoSlot, Len: 1},
		{Op: device.OpGone},
		{Op: device.OpRefused},
		{Op: 99},
	}
	w.run()
	assert.Empty(t, p.poll())
	s := p.e.Stats()
	assert.Equal(t, []uint64{1, 1, 2}, []uint64{s.Gone, s.Refused, s.Dropped})

	for _, n := range []int{-1, 8761, 1 << 30} {
		o.qp.comps = []device.Completion{{Op: device.OpRecv, ID: 0, Len: n}}
		w.run()
		assert.Empty(t, p.poll(), "%d bytes", n)
	}
	w.clean()
}

// A device may refuse a region.
func TestDeviceRefusesRegion(t *testing.T) {
	_, o, p := oddProg(t)
	before := p.e.Stats().MRs
	_, err := p.pd.Register(p.mem.base(), 10, p.mem.base(), device.RemoteRead)
	require.ErrorIs(t, err, device.ErrNoMemory)
	assert.Equal(t, before, p.e.Stats().MRs)
	o.foreign = errors.New("test: no")
	_, err = p.pd.Register(p.mem.base(), 10, p.mem.base(), device.RemoteRead|device.RemoteWrite)
	require.ErrorIs(t, err, o.foreign)
	assert.NotZero(t, p.pd.Number())
}

// A buffer of a receive may be empty.
func TestEmptyBuffer(t *testing.T) {
	w, a, b := pair(t, options{}, progConfig{sges: 3})
	at := b.alloc(make([]byte, 20))
	b.recv(1, b.sge(at, 0), b.sge(at, 3), b.sge(at+10, 10))
	a.post(a.to(b, inline(1, []byte("0123456789"))))
	w.run()
	require.Zero(t, b.one().Status)
	assert.Equal(t, "012\x00\x00\x00\x00\x00\x00\x003456789", string(b.bytes(at, 17)))
	w.clean()
}
