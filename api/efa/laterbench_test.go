package efa_test

import (
	"testing"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// later is a device that reports every send by a completion, as EFA does, also where it
// knows at post that the packet has arrived.
type later struct{ efa.Device }

// OpenQP implements device.Device.
func (d later) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return laterQP{qp}, nil
}

type laterQP struct{ device.QP }

// PostSend implements device.QP.
func (q laterQP) PostSend(wr *device.SendWR) error {
	prompt := wr.Prompt
	wr.Prompt = false
	err := q.QP.PostSend(wr)
	wr.Prompt = prompt
	return err
}

// BenchmarkEagerLater is BenchmarkEager's 8 bytes on a device whose completions come later:
// what an acknowledged eager message costs on one like EFA. BenchmarkEager is on one that
// knows at post.
func BenchmarkEagerLater(b *testing.B) {
	dev := later{newDevice(b, newFabric(b, sim.Config{InOrder: true}))}
	benchmarkEager(b, dev, 8, efa.Telemetry{}, false)
}
