package efa_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// buggy is a device whose driver panics in one of its calls.
type buggy struct {
	device.Device
	in atomic.Value // the call's name
}

type buggyQP struct {
	device.QP
	dev *buggy
}

func (d *buggy) call(name string) {
	if d.in.Load() == name {
		panic("a bug in " + name)
	}
}

func (d *buggy) Alloc(n int, a device.Access) (device.MR, error) {
	d.call("Alloc")
	return d.Device.Alloc(n, a)
}

func (d *buggy) OpenQP(c device.QPConfig) (device.QP, error) {
	d.call("OpenQP")
	qp, err := d.Device.OpenQP(c)
	return &buggyQP{qp, d}, err
}

func (q *buggyQP) PostSend(wr *device.SendWR) error {
	q.dev.call("PostSend")
	return q.QP.PostSend(wr)
}

func (q *buggyQP) Arm() bool {
	q.dev.call("Arm")
	return q.QP.Arm()
}

func (q *buggyQP) Poll(c []device.Completion) int {
	q.dev.call("Poll")
	return q.QP.Poll(c)
}

// TestPanicOfDriver: a driver that panics ends the endpoint, with an event and an error for
// every operation, and not the process.
func TestPanicOfDriver(t *testing.T) {
	for _, direct := range []bool{false, true} {
		t.Run(map[bool]string{false: "protocol", true: "direct"}[direct], func(t *testing.T) { panicOfDriver(t, direct) })
	}
}

func panicOfDriver(t *testing.T, direct bool) {
	for _, call := range []string{"PostSend", "Poll", "Arm"} {
		t.Run(call, func(t *testing.T) {
			d := &buggy{Device: newDevice(t, newFabric(t, sim.Config{InOrder: true}))}
			dom := domainOn(t, d, efa.DomainConfig{})
			q := newQueue(t, dom, 8)
			s := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q, Direct: direct})
			ctx := testContext(t)
			self, err := s.av.Insert(s.ep.Address())
			require.NoError(t, err)
			_, err = s.ep.PostRecv(&efa.RecvReq{Tagged: !direct, Buf: make([]byte, 4)})
			require.NoError(t, err)
			left := 1
			if direct { // the word takes the first one, if it comes
				_, err = s.ep.PostRecv(&efa.RecvReq{})
				require.NoError(t, err)
				left = 2
			}
			d.in.Store(call)
			if err := s.ep.Send(ctx, self, []byte("word")); call == "PostSend" {
				require.Error(t, err)
			}
			ev, err := s.ep.NextEvent(ctx)
			require.NoError(t, err)
			require.Equal(t, efa.DeviceFailed, ev.Kind)
			if direct && call == "PostSend" { // which the endpoint calls itself
				require.ErrorIs(t, ev.Err, efa.ErrIO)
			} else {
				require.ErrorContains(t, ev.Err, "a bug in "+call)
			}
			for left > 0 {
				var cs [8]efa.Completion
				n, err := q.Read(ctx, cs[:])
				require.NoError(t, err)
				if left -= n; left == 0 {
					require.ErrorIs(t, cs[n-1].Err, efa.ErrIO)
				}
			}
			require.ErrorIs(t, s.ep.Send(ctx, self, []byte("later")), efa.ErrIO)
		})
	}
	for _, call := range []string{"OpenQP", "Alloc"} {
		t.Run(call, func(t *testing.T) {
			d := &buggy{Device: newDevice(t, newFabric(t, sim.Config{InOrder: true}))}
			d.in.Store(call)
			fab, err := efa.Open(efa.Config{Device: d})
			require.NoError(t, err)
			dom, err := fab.OpenDomain(efa.DomainConfig{})
			require.NoError(t, err)
			if call == "Alloc" {
				_, err = dom.Alloc(100, 0)
			} else {
				ep, nerr := dom.NewEndpoint(efa.EndpointConfig{AV: dom.NewAddressVector()})
				require.NoError(t, nerr)
				err = ep.Enable(testContext(t))
				require.NoError(t, ep.Close())
			}
			require.ErrorContains(t, err, "a bug in "+call)
			require.NoError(t, dom.Close())
			require.NoError(t, fab.Close())
		})
	}
}

// TestPanicOfInjected: of messages that are injected, with a driver that panics, each has one outcome,
// whether the goroutine that injects runs the shard itself or not.
func TestPanicOfInjected(t *testing.T) {
	for _, p := range []efa.Progress{efa.ProgressManual, efa.ProgressPinned} {
		t.Run(p.String(), func(t *testing.T) {
			d := &buggy{Device: newDevice(t, newFabric(t, sim.Config{InOrder: true}))}
			dom := domainOn(t, d, efa.DomainConfig{Progress: p})
			q := newQueue(t, dom, 8)
			s := newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q})
			ctx := testContext(t)
			self, err := s.av.Insert(s.ep.Address())
			require.NoError(t, err)
			for i := 0; i < 20 && p == efa.ProgressManual; i++ { // after which the shard has no owner
				require.NoError(t, s.ep.Send(ctx, self, nil, efa.Inject))
			}
			d.in.Store("PostSend")
			require.NoError(t, s.ep.Send(ctx, self, []byte("word"), efa.Inject))
			ev, err := s.ep.NextEvent(ctx)
			require.NoError(t, err)
			require.Equal(t, efa.DeviceFailed, ev.Kind)
			require.NoError(t, s.ep.Close())
			seen := map[efa.OpID]bool{}
			for {
				var cs [8]efa.Completion
				n, err := q.Read(ctx, cs[:])
				for _, c := range cs[:n] {
					require.Error(t, c.Err)
					require.False(t, seen[c.ID], "a second outcome")
					seen[c.ID] = true
				}
				if err != nil {
					require.ErrorIs(t, err, efa.ErrClosed)
					break
				}
			}
			require.NotEmpty(t, seen)
		})
	}
}
