package efa_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// frail is a device whose queue pairs end when told to.
type frail struct {
	device.Device
	ends    atomic.Int64 // how many queue pairs are to end
	refuses atomic.Bool
	deaf    atomic.Bool // nothing arrives
	notify  atomic.Value
}

type frailQP struct {
	device.QP
	d     *frail
	ended bool
}

func (d *frail) OpenQP(c device.QPConfig) (device.QP, error) {
	if d.refuses.Load() {
		return nil, device.ErrClosed // as after a reset
	}
	d.notify.Store(c.Notify)
	qp, err := d.Device.OpenQP(c)
	return &frailQP{QP: qp, d: d}, err
}

func (d *frail) end() {
	d.ends.Add(1)
	d.notify.Load().(func())()
}

func (q *frailQP) Arm() bool { return q.d.ends.Load() == 0 && q.QP.Arm() }

func (q *frailQP) Poll(c []device.Completion) int {
	if n := q.d.ends.Load(); n > 0 && !q.ended && q.d.ends.CompareAndSwap(n, n-1) {
		q.ended = true
		c[0] = device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
		return 1
	}
	if q.ended || q.d.deaf.Load() {
		return 0
	}
	return q.QP.Poll(c)
}

func (q *frailQP) PostSend(wr *device.SendWR) error {
	if q.ended {
		return device.ErrClosed
	}
	return q.QP.PostSend(wr)
}

// fail ends the queue pair, and waits for the event. Peers may have failed before.
func (d *frail) fail(t *testing.T, s *side) {
	t.Helper()
	d.end()
	for ev := (efa.Event{}); ev.Kind != efa.DeviceFailed; {
		var err error
		ev, err = s.ep.NextEvent(testContext(t))
		require.NoError(t, err)
		require.Contains(t, []efa.EventKind{efa.PeerFailed, efa.DeviceFailed}, ev.Kind)
	}
}

// TestEnableAgain: after a fatal event every operation has one outcome, and the endpoint can
// be enabled again: at the same place with a new connid, of which an event tells. A peer
// that inserts the new address talks to it; the old one is dead. It can fail again.
func TestEnableAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fabric")
	f := newFabric(t, sim.Config{Seed: 4})
	kinds := map[string]func() efa.Device{
		"sim": func() efa.Device { return newDevice(t, f) },
		"shm": func() efa.Device {
			d, err := efa.OpenDevice("shm:" + dir)
			require.NoError(t, err)
			return d
		},
		"tcp": func() efa.Device {
			d, err := efa.OpenDevice("tcp")
			require.NoError(t, err)
			return d
		},
	}
	for kind, scheme := range map[string]string{"sim": "sim", "shm": "shm", "tcp": "tcp", "joined": "sim"} {
		t.Run(kind, func(t *testing.T) {
			dev := &frail{Device: kinds[scheme]()}
			on, other := efa.Device(dev), kinds[scheme]()
			if kind == "joined" {
				more, err := f.OpenDevice(sim.DeviceConfig{Name: "more", Net: 7})
				require.NoError(t, err)
				on, err = efa.JoinDevices(more, dev)
				require.NoError(t, err)
			}
			t.Cleanup(func() {
				require.NoError(t, on.Close())
				require.NoError(t, other.Close())
			})
			dom := domainOn(t, on, efa.DomainConfig{})
			q := newQueue(t, dom, 64)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
			p := open(t, other, efa.DomainConfig{})
			ctx := testContext(t)
			require.ErrorIs(t, s.ep.Enable(ctx), efa.ErrBadState)
			toP, err := s.av.Insert(p.ep.Address())
			require.NoError(t, err)
			var old efa.Addr
			for round := range 3 {
				toS, err := p.av.Insert(s.ep.Address())
				require.NoError(t, err)
				if round > 0 {
					require.NotEqual(t, old, toS)
				}
				old = toS
				for _, way := range []struct {
					from, to *side
					h        efa.Addr
				}{{s, p, toP}, {p, s, toS}} {
					for n := range 20 {
						op := start(t, way.from, &efa.SendReq{To: way.h, Buf: pattern(n * 500)})
						m, err := way.to.ep.Recv(ctx, make([]byte, 10_000))
						require.NoError(t, err)
						require.Equal(t, n*500, m.N)
						done(t, op)
					}
				}
				const posted = 5
				for range posted {
					_, err = s.ep.PostRecv(&efa.RecvReq{Tagged: true})
					require.NoError(t, err)
				}
				was := s.ep.Address()
				dev.fail(t, s)
				require.ErrorIs(t, s.ep.Send(ctx, toP, nil), efa.ErrIO)
				dev.refuses.Store(true)
				require.ErrorIs(t, s.ep.Enable(ctx), device.ErrClosed)
				dev.refuses.Store(false)
				require.NoError(t, s.ep.Enable(ctx))
				require.Zero(t, dev.ends.Load())
				var cs [16]efa.Completion
				n, err := q.Read(ctx, cs[:])
				require.NoError(t, err)
				require.Equal(t, posted, n, "before Enable returns")
				for _, c := range cs[:n] {
					require.ErrorIs(t, c.Err, efa.ErrIO)
				}
				ev, ok := s.ep.TryEvent()
				require.True(t, ok)
				require.Equal(t, efa.EnabledAgain, ev.Kind)
				require.True(t, ev.Address.Equal(s.ep.Address()))
				for _, scheme := range []string{scheme, "more"} {
					before, has := was.Raw(scheme)
					after, still := s.ep.Address().Raw(scheme)
					require.Equal(t, has, still)
					require.Equal(t, before.GID(), after.GID())
					require.Equal(t, before.QPN(), after.QPN())
					require.True(t, !has || before.ConnID() != after.ConnID())
				}
			}
			require.Error(t, p.ep.Send(ctx, old, make([]byte, 100), efa.Complete(efa.Delivered)), "of a former one")
		})
	}
}

// TestEnableAgainBesideOthers: goroutines send all the time while the endpoint fails and is
// enabled again. Each call returns, with success or ErrIO, and nothing is lost of what
// succeeded after.
func TestEnableAgainBesideOthers(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			dev := &frail{Device: newDevice(t, newFabric(t, sim.Config{}))}
			dom := domainOn(t, dev, efa.DomainConfig{Progress: mode})
			q := newQueue(t, dom, 1<<10)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, TxDepth: 16})
			ctx := testContext(t)
			var stop atomic.Bool
			var all sync.WaitGroup
			var posted, ended, total atomic.Int64
			t.Cleanup(func() { // also if the test fails: they would slow down all others
				stop.Store(true)
				all.Wait()
			})
			nobody, err := s.av.Insert(simAddress(5)) // no endpoint is there
			require.NoError(t, err)
			for range 3 {
				all.Go(func() {
					for !stop.Load() {
						if s.ep.Send(ctx, nobody, nil) == nil { // ErrIO, or there is no such queue pair
							t.Error("sent to nobody")
						}
						if _, err := s.ep.PostSend(&efa.SendReq{To: nobody}); err == nil {
							posted.Add(1)
						}
						runtime.Gosched() // a failed endpoint refuses at once
					}
				})
			}
			read := make(chan struct{})
			go func() {
				defer close(read)
				var cs [64]efa.Completion
				for ended.Load() != total.Load() || total.Load() == 0 {
					n, err := q.Read(ctx, cs[:])
					if err != nil {
						return
					}
					ended.Add(int64(n))
				}
			}()
			for range less(40) {
				dev.fail(t, s)
				require.NoError(t, s.ep.Enable(ctx))
				for ev := (efa.Event{}); ev.Kind != efa.EnabledAgain; {
					ev, err = s.ep.NextEvent(ctx)
					require.NoError(t, err)
					require.Contains(t, []efa.EventKind{efa.EnabledAgain, efa.PeerFailed, efa.DeviceFailed}, ev.Kind)
				}
			}
			stop.Store(true)
			all.Wait()
			total.Store(posted.Load() + 1)
			_, err = s.ep.PostSend(&efa.SendReq{To: nobody}) // the reader's end
			for ; errors.Is(err, efa.ErrAgain); _, err = s.ep.PostSend(&efa.SendReq{To: nobody}) {
				runtime.Gosched() // until there is a place: the last ones are not read yet
			}
			require.NoError(t, err)
			<-read
			require.Equal(t, total.Load(), ended.Load())
		})
	}
}
