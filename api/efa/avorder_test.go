package efa_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// pollHook is a device whose queue pairs call a function, once, before they are polled.
type pollHook struct {
	device.Device
	before atomic.Pointer[func()]
}

type pollHookQP struct {
	device.QP
	dev *pollHook
}

func (d *pollHook) OpenQP(c device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(c)
	return &pollHookQP{qp, d}, err
}

func (q *pollHookQP) Poll(c []device.Completion) int {
	if f := q.dev.before.Swap(nil); f != nil {
		(*f)()
	}
	return q.QP.Poll(c)
}

// TestInsertBeforeMessage: a message that comes after Insert has returned has a sender, also if
// the turn that takes it up had looked for requests before Insert.
func TestInsertBeforeMessage(t *testing.T) {
	for name, cfg := range map[string]efa.EndpointConfig{"protocol": {}, "direct": {Direct: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{InOrder: true})
			manual := efa.DomainConfig{Progress: efa.ProgressManual}
			dev := &pollHook{Device: newDevice(t, f)}
			dom, cfg := domainOn(t, dev, manual), cfg
			q := newQueue(t, dom, 8)
			cfg.RecvQueue = q
			a := newEndpoint(t, dom, cfg)
			cfg.RecvQueue = nil
			b := newEndpoint(t, openDomain(t, f, manual), cfg)
			var err error
			b.peer, err = b.av.Insert(a.ep.Address())
			require.NoError(t, err)
			ctx, cs := testContext(t), make([]efa.Completion, 1)
			for _, insert := range []bool{false, true} {
				_, err := a.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 64)})
				require.NoError(t, err)
				require.Zero(t, q.TryRead(cs), "the receive is with the shard")
				from := make(chan efa.Addr, 1)
				hook := func() { // in this test's goroutine, or the shard's helper
					h, err := a.av.Insert(b.ep.Address())
					assert.NoError(t, err)
					from <- h
				}
				if insert {
					dev.before.Store(&hook)
				} else {
					from <- efa.NoAddr
				}
				require.NoError(t, b.ep.Send(ctx, b.peer, []byte("a message")))
				_, err = q.Read(ctx, cs)
				require.NoError(t, err)
				require.NoError(t, cs[0].Err)
				require.Equal(t, <-from, cs[0].From)
			}
		})
	}
}
