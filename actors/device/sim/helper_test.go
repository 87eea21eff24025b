package sim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
)

// party is a queue pair with its completions, for tests in one goroutine.
type party struct {
	*sim.QP
	t       testing.TB
	dev     *sim.Device
	at      sim.Endpoint
	qkey    uint32
	notices int

	got   []device.Completion // all but completed requests
	bytes []string            // of the receives
	sent  map[uint64]device.Status
}

func newFabric(t testing.TB, cfg sim.Config) *sim.Fabric {
	t.Helper()
	f, err := sim.New(cfg)
	require.NoError(t, err)
	return f
}

// join opens a device of its own with one queue pair, all slots posted.
func join(t testing.TB, f *sim.Fabric, cfg device.QPConfig) *party {
	t.Helper()
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	return joinOn(t, d, cfg)
}

func joinOn(t testing.TB, d *sim.Device, cfg device.QPConfig) *party {
	t.Helper()
	p := &party{t: t, dev: d, qkey: cfg.QKey, sent: map[uint64]device.Status{}}
	cfg.Notify = func() { p.notices++ }
	qp, err := d.OpenQP(cfg)
	require.NoError(t, err)
	p.QP = qp.(*sim.QP)
	p.at = sim.Endpoint{GID: d.Info().GID, QPN: qp.QPN()}
	p.postAll()
	return p
}

func (p *party) postAll() {
	for i := range p.RecvSlots() {
		p.PostRecv([]int32{int32(i)})
	}
}

// wr is a send to to; the handle it takes is never given back.
func (p *party) wr(id uint64, to *party, data string) *device.SendWR {
	p.t.Helper()
	ah, err := p.CreateAH(to.at.GID)
	require.NoError(p.t, err)
	return &device.SendWR{ID: id, AH: ah, QPN: to.at.QPN, QKey: to.qkey, Header: []byte(data)}
}

// rdma is a request between local and the beginning of mr, which is to's.
func (p *party) rdma(id uint64, to *party, kind device.WR, local []byte, mr device.MR) *device.SendWR {
	p.t.Helper()
	wr := p.wr(id, to, "")
	wr.Kind, wr.Header, wr.Payload = kind, nil, local
	wr.RKey, wr.Remote = mr.RKey(), mr.Addr()
	return wr
}

func (p *party) send(id uint64, to *party, data string) {
	p.t.Helper()
	require.NoError(p.t, p.PostSend(p.wr(id, to, data)))
	p.Doorbell()
}

// poll takes all that is ready and posts the slots again.
func (p *party) poll() {
	var c [4]device.Completion
	for {
		n := p.Poll(c[:])
		if n == 0 {
			return
		}
		for _, e := range c[:n] {
			switch e.Op {
			case device.OpSend:
				require.NotContains(p.t, p.sent, e.ID)
				p.sent[e.ID] = e.Status
			case device.OpRecv:
				p.got = append(p.got, e)
				p.bytes = append(p.bytes, string(p.RecvBytes(int(e.ID))[:e.Len]))
				p.PostRecv([]int32{int32(e.ID)})
			case device.OpWritten:
				p.got = append(p.got, e)
				if e.ID != device.NoSlot {
					p.PostRecv([]int32{int32(e.ID)})
				}
			case device.OpGone, device.OpRefused, device.OpPlaced:
				p.got = append(p.got, e)
			}
		}
	}
}

// run lets a virtual fabric play until nothing moves; parties arm in between, so
// that timers of resends count as movement.
func run(f *sim.Fabric, parties ...*party) {
	for {
		for _, p := range parties {
			p.poll()
			p.Arm()
		}
		if !f.Step() {
			break
		}
	}
	for _, p := range parties {
		p.poll()
	}
}
