package efatest

import (
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Device is a port of the fabric. It brings its world along: objects opened on it
// live in simulated time.
type Device struct {
	*sim.Device
	w     *World
	nodes []*node
}

var (
	_ efa.Device         = (*Device)(nil)
	_ device.Environment = (*Device)(nil)
)

// Device opens a port of the fabric.
func (w *World) Device(cfg DeviceConfig) (*Device, error) {
	d, err := w.fab.OpenDevice(cfg)
	if err != nil {
		return nil, err
	}
	return &Device{Device: d, w: w}, nil
}

// Environment implements device.Device.
func (d *Device) Environment() device.Environment { return d }

// Clock implements device.Environment.
func (d *Device) Clock() clock.Clock { return d.w.fab.Clock() }

// Waiter implements device.Environment.
func (d *Device) Waiter() shard.Waiter { return d.w }

// Seed implements device.Environment.
func (d *Device) Seed() uint64 { return d.w.rng.Uint64() | 1 }

// Random implements device.Environment.
func (d *Device) Random() uint32 { return d.w.rng.Uint32() }

// Attach implements device.Environment: the world runs the shard.
func (d *Device) Attach(s *shard.Shard) {
	if d.w.queueAll {
		s.QueueAll()
	}
	n := &node{shard: s}
	d.w.shards, d.nodes = append(d.w.shards, n), append(d.nodes, n)
}

// Pause stops the process that the device stands for, for a time: its shards take no turn
// while its queue pairs take what arrives, as long as there are receives posted. Programs
// are not stopped; those of the process should wait meanwhile.
func (d *Device) Pause(t time.Duration) {
	for _, n := range d.nodes {
		n.until = d.w.now().Add(t)
	}
}

// OpenQP implements device.Device.
func (d *Device) OpenQP(cfg device.QPConfig) (device.QP, error) {
	q := &simQP{w: d.w}
	notify := cfg.Notify
	cfg.Notify = func() {
		if q.node != nil {
			q.node.asleep = false
		}
		if notify != nil {
			notify()
		}
	}
	var err error
	if q.QP, err = d.Device.OpenQP(cfg); err != nil {
		return nil, err
	}
	return q, nil
}

// simQP is a queue pair that knows the shard that polls it, so that the world can
// let that shard sleep.
type simQP struct {
	device.QP
	w    *World
	node *node
}

// Poll implements device.QP.
func (q *simQP) Poll(c []device.Completion) int {
	if n := q.w.turning; q.node == nil && n != nil {
		q.node = n
		n.qps = append(n.qps, q)
	}
	return q.QP.Poll(c)
}

// Close implements device.QP.
func (q *simQP) Close() error {
	if n := q.node; n != nil {
		for i, o := range n.qps {
			if o == q {
				n.qps = append(n.qps[:i:i], n.qps[i+1:]...)
				break
			}
		}
	}
	return q.QP.Close()
}

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
