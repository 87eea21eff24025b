package death

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// seam is the device of one side. It looks at the counters of the side's machines in each
// call, so a fault strikes before anything else can leave or reach the endpoint.
type seam struct {
	efa.Device
	sim   *efatest.Device
	steps settings.Steps
	look  func() // called at every point
	held  bool   // the process is stopped: nothing leaves, nothing comes

	slots, most int // receive slots that the device has, and the most since most was set to 0
}

// OpenQP implements device.Device.
func (s *seam) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := s.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return &seamQP{QP: qp, s: s}, nil
}

func (s *seam) point() {
	if s.look != nil && s.steps != nil {
		s.look()
	}
}

// counts are the counters of the machines, in the order of the tables.
func (s *seam) counts(to []uint64) []uint64 {
	to = to[:0]
	s.steps.Each(func(_, _, _ string, n uint64) { to = append(to, n) })
	return to
}

// seamQP is a queue pair of a seam.
type seamQP struct {
	device.QP
	s    *seam
	kept []device.SendWR // posted by a process that is stopped
}

// PostSend implements device.QP.
func (q *seamQP) PostSend(wr *device.SendWR) error {
	q.s.point()
	if q.s.held || len(q.kept) > 0 {
		q.keep(wr)
		return nil
	}
	err := q.QP.PostSend(wr)
	q.s.point()
	return err
}

// keep holds a request back that a process posts in the turn in which it is stopped. In
// truth it would not have come so far.
func (q *seamQP) keep(wr *device.SendWR) {
	x := *wr
	x.Prompt = false
	x.More = slices.Clone(wr.More)
	if wr.Kind == device.WRSend {
		b := make([]byte, wr.Len())
		wr.Gather(b)
		x.Header, x.Payload, x.More = b, nil, nil
	}
	q.kept = append(q.kept, x)
}

// Poll implements device.QP: one completion at a time, so that each is a point of its own.
func (q *seamQP) Poll(c []device.Completion) int {
	q.s.point()
	if q.s.held {
		return 0
	}
	for len(q.kept) > 0 && q.QP.PostSend(&q.kept[0]) == nil {
		q.kept = q.kept[1:]
		q.QP.Doorbell()
	}
	n := q.QP.Poll(c[:min(1, len(c))])
	if n == 1 && c[0].Op == device.OpRecv {
		q.s.slots--
	}
	return n
}

// PostRecv implements device.QP.
func (q *seamQP) PostRecv(slots []int32) {
	q.s.point()
	q.s.slots += len(slots)
	q.s.most = max(q.s.most, q.s.slots)
	q.QP.PostRecv(slots)
}

// Doorbell implements device.QP.
func (q *seamQP) Doorbell() {
	q.s.point()
	q.QP.Doorbell()
}

// Arm implements device.QP.
func (q *seamQP) Arm() bool {
	q.s.point()
	return q.QP.Arm()
}
