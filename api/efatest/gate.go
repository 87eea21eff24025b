package efatest

import (
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/api/efa"
)

// ReceiveGate is a device whose receiver can be made "not ready", to see what its senders
// do then: it keeps back the receive buffers that its endpoints post. It works with any
// device, in simulated time or not.
type ReceiveGate struct {
	efa.Device
	held atomic.Bool
}

// NewReceiveGate returns dev with a gate, which is open.
func NewReceiveGate(dev efa.Device) *ReceiveGate { return &ReceiveGate{Device: dev} }

// Hold keeps back the buffers that are posted from now on. Once those that the device
// already has are full, its senders meet RNR. Any goroutine.
func (g *ReceiveGate) Hold() { g.held.Store(true) }

// Release gives the device what was kept back, when the endpoint polls it next. Any
// goroutine.
func (g *ReceiveGate) Release() { g.held.Store(false) }

// OpenQP implements device.Device.
func (g *ReceiveGate) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := g.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return &gatedQP{QP: qp, gate: g}, nil
}

// gatedQP belongs to one shard, as any queue pair.
type gatedQP struct {
	device.QP
	gate *ReceiveGate
	kept []int32 // slots
}

// PostRecv implements device.QP.
func (q *gatedQP) PostRecv(slots []int32) {
	if q.gate.held.Load() {
		q.kept = append(q.kept, slots...)
		return
	}
	q.QP.PostRecv(slots)
}

// Poll implements device.QP.
func (q *gatedQP) Poll(c []device.Completion) int {
	if len(q.kept) > 0 && !q.gate.held.Load() {
		q.QP.PostRecv(q.kept)
		q.kept = q.kept[:0]
	}
	return q.QP.Poll(c)
}
