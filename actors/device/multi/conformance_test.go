package multi_test

import (
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/internal/devicetest"
	"github.com/efactor/efactor/internal/testenv"
)

// view is a device of which others know one path, as if there were no other.
type view struct {
	*multi.Device
	path int
	wake bool // by QPConfig.Notify, whatever FDs say

	regions *sync.Map // by the local key on the path
}

func (v view) Info() device.Info {
	i, p := v.Device.Info(), v.Devices()[v.path].Info()
	i.GID, i.MaxRDMA, i.Pulse, i.HoldsBack = p.GID, p.MaxRDMA, p.Pulse, p.HoldsBack
	return i
}

func (v view) Register(mem []byte, a device.Access) (device.MR, error) {
	return v.part(v.Device.Register(mem, a))
}

func (v view) Alloc(n int, a device.Access) (device.MR, error) {
	return v.part(v.Device.Alloc(n, a))
}

// viewMR has the name of the path.
type viewMR struct {
	device.MR
	whole device.MR
}

func (m viewMR) Close() error { return m.whole.Close() }

func (v view) part(mr device.MR, err error) (device.MR, error) {
	if err != nil {
		return nil, err
	}
	part := device.Part(mr, uint8(v.path))
	v.regions.Store(part.LKey(), mr)
	return viewMR{part, mr}, nil
}

func (v view) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := v.Device.OpenQP(c)
	if err != nil {
		return nil, err
	}
	n := qp.RecvSlots() / 2
	return &viewQP{QP: qp, view: v, slots: n, base: v.path * n}, nil
}

// viewQP has the receive slots of its path.
type viewQP struct {
	device.QP
	view        view
	slots, base int
	scratch     []int32
}

// PostSend names the region as the device does that carries to wr.AH: a GID that is on no
// path is the last device's to refuse.
func (q *viewQP) PostSend(wr *device.SendWR) error {
	if path := q.PathOf(wr.AH); wr.Kind != device.WRSend && path != q.view.path {
		if mr, ok := q.view.regions.Load(wr.LKey); ok {
			wr.LKey = device.Part(mr.(device.MR), uint8(path)).LKey()
		}
	}
	return q.QP.PostSend(wr)
}

func (q *viewQP) Lend(_ uint8, lkey uint32, mem []byte) (uint64, error) {
	return q.QP.Lend(uint8(q.view.path), lkey, mem)
}

func (q *viewQP) Return(_ uint8, rkey uint64) { q.QP.Return(uint8(q.view.path), rkey) }

func (q *viewQP) QPN() uint16    { return q.QP.Paths()[q.view.path].QPN }
func (q *viewQP) RecvSlots() int { return q.slots }

func (q *viewQP) FDs() []int {
	if q.view.wake {
		return nil
	}
	return q.QP.FDs()
}

// slot is the slot's number at the queue pair.
func (q *viewQP) slot(n int) int {
	if n < 0 || n >= q.slots {
		return -1
	}
	return n + q.base
}

func (q *viewQP) RecvBytes(n int) []byte { return q.QP.RecvBytes(q.slot(n)) }

func (q *viewQP) PostRecv(slots []int32) {
	q.scratch = q.scratch[:0]
	for _, n := range slots {
		q.scratch = append(q.scratch, int32(q.slot(int(n))))
	}
	q.QP.PostRecv(q.scratch)
}

func (q *viewQP) Poll(c []device.Completion) int {
	n := q.QP.Poll(c)
	for i := range c[:n] {
		if e := &c[i]; (e.Op == device.OpRecv || e.Op == device.OpWritten) && e.ID != device.NoSlot {
			e.ID -= uint64(q.base) // below 0: another path's
		}
	}
	return n
}

// nets are fabrics of devices that are on two networks each.
func nets(cfg sim.Config, dc sim.DeviceConfig, path int) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric {
		f, err := sim.New(cfg)
		require.NoError(tb, err)
		df := &devicetest.Fabric{
			Shuffles: !cfg.InOrder, Single: cfg.Virtual, ReportsGone: cfg.ReportGone, ReportsRefused: true,
		}
		var ports [][2]*sim.Device
		for range devices {
			var p [2]*sim.Device
			for net := range p {
				dc.Net = net
				p[net], err = f.OpenDevice(dc)
				require.NoError(tb, err)
			}
			ports = append(ports, p)
			df.Devices = append(df.Devices, look(tb, path, false, p[0], p[1]))
		}
		if cfg.Virtual {
			df.Progress = func() {
				if !f.Step() { // resends wait, for the owners that do not arm
					f.AdvanceTo(f.Clock().Now().Add(20 * time.Microsecond))
				}
			}
		}
		df.Kill = func(i int) {
			ports[i][path].Kill()
		}
		return df
	}
}

// shmAndSim are devices in shared memory and on a simulated network. Those of shared
// memory have one GID.
func shmAndSim(path int) devicetest.Factory {
	return func(tb testing.TB, devices int) *devicetest.Fabric {
		dir := filepath.Join(tb.TempDir(), "fabric")
		f, err := sim.New(sim.Config{InOrder: true})
		require.NoError(tb, err)
		df := &devicetest.Fabric{OneGID: path == 0, ReportsRefused: path == 1}
		for range devices {
			a, err := shm.Open(shm.Config{Dir: dir})
			require.NoError(tb, err)
			b, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true})
			require.NoError(tb, err)
			d := look(tb, path, path == 1, a, b)
			tb.Cleanup(func() { _ = d.Close() }) // the case may have
			df.Devices = append(df.Devices, d)
		}
		return df
	}
}

func look(tb testing.TB, path int, wake bool, devs ...device.Device) device.Device {
	d, err := multi.Open(devs...)
	require.NoError(tb, err)
	return view{d, path, wake, new(sync.Map)}
}

// In the short form each of the fabrics is looked at by one path.
func TestConformance(t *testing.T) {
	rdma := sim.DeviceConfig{RDMARead: true, RDMAWrite: true}
	keys := sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true, MaxRDMA: 1 << 20}
	for path, name := range []string{"first", "second"} {
		for i, f := range []struct {
			name    string
			run     func(*testing.T, int, int, devicetest.Factory)
			factory devicetest.Factory
		}{
			{"virtual", devicetest.RunPart, nets(sim.Config{Seed: 1, Virtual: true, ReportGone: true}, rdma, path)},
			{"shuffled", devicetest.RunPart, nets(sim.Config{Seed: 2, ReportGone: true}, sim.DeviceConfig{}, path)},
			{"shm and sim", devicetest.RunPart, shmAndSim(path)},
			{"keys", devicetest.RunRDMAPart, nets(sim.Config{Seed: 3, Virtual: true, CopyLate: true}, keys, path)},
		} {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				if i%2 != path {
					testenv.Long(t, "other rows do")
				}
				f.run(t, i+path, 3, f.factory)
			})
		}
	}
}

// TestWrapped: a wrapper says of a device what the device says.
func TestWrapped(t *testing.T) {
	sink, err := tap.NewPcapng(io.Discard, nil)
	require.NoError(t, err)
	a, err := shm.Open(shm.Config{Dir: filepath.Join(t.TempDir(), "fabric")})
	require.NoError(t, err)
	b, err := tcp.Open(tcp.Config{})
	require.NoError(t, err)
	d, err := multi.Open(tap.Wrap(a, sink), tap.Wrap(b, sink))
	require.NoError(t, err)
	require.True(t, d.Reaches(a.Info().GID))
	require.True(t, d.Reaches(b.Info().GID))
	require.Len(t, tap.Wrap(d, sink).Devices(), 2)
	require.NoError(t, d.Close())
}
