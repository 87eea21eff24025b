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
	for _, call := range []string{"PostSend", "Poll", "Arm"} {
		t.Run(call, func(t *testing.T) {
			d := &buggy{Device: newDevice(t, newFabric(t, sim.Config{InOrder: true}))}
			dom := domainOn(t, d, efa.DomainConfig{})
			q := newQueue(t, dom, 8)
			s := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q})
			ctx := testContext(t)
			self, err := s.av.Insert(s.ep.Address())
			require.NoError(t, err)
			_, err = s.ep.PostRecv(&efa.RecvReq{Tagged: true})
			require.NoError(t, err)
			d.in.Store(call)
			if err := s.ep.Send(ctx, self, []byte("word")); call == "PostSend" {
				require.Error(t, err)
			}
			ev, err := s.ep.NextEvent(ctx)
			require.NoError(t, err)
			require.Equal(t, efa.DeviceFailed, ev.Kind)
			require.ErrorContains(t, ev.Err, "a bug in "+call)
			var cs [8]efa.Completion
			n, err := q.Read(ctx, cs[:])
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.ErrorIs(t, cs[0].Err, efa.ErrIO)
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
