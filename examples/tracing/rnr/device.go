// Package rnr is a device whose receiver can be made "not ready", to see what senders
// do then: it keeps the receive buffers that its endpoint posts.
package rnr

import (
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
)

// Device wraps another device.
type Device struct {
	device.Device
	held atomic.Bool
}

// Wrap returns dev with a receiver that can be stopped.
func Wrap(dev device.Device) *Device { return &Device{Device: dev} }

// Hold keeps the buffers that are posted from now on: once those that the device has
// are full, whoever sends here meets RNR.
func (d *Device) Hold() { d.held.Store(true) }

// Release lets the endpoint post them, at its next turn.
func (d *Device) Release() { d.held.Store(false) }

// OpenQP implements device.Device.
func (d *Device) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return &queuePair{QP: qp, dev: d}, nil
}

// queuePair belongs to one shard, as device.QP says.
type queuePair struct {
	device.QP
	dev  *Device
	kept []int32
}

// PostRecv implements device.QP.
func (q *queuePair) PostRecv(slots []int32) {
	if q.dev.held.Load() {
		q.kept = append(q.kept, slots...)
		return
	}
	q.QP.PostRecv(slots)
}

// Poll implements device.QP.
func (q *queuePair) Poll(c []device.Completion) int {
	if len(q.kept) > 0 && !q.dev.held.Load() {
		q.QP.PostRecv(q.kept)
		q.kept = q.kept[:0]
	}
	return q.QP.Poll(c)
}
