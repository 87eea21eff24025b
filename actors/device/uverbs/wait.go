//go:build linux

package uverbs

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// A queue pair that is to sleep arms its completion queue: the device puts one event into
// the channel for the next completion. What came between the last Poll and the arming is
// found by a last look at the ring, so no event is lost.

// Arm implements device.QP. Without events the device cannot be slept on.
func (q *QP) Arm() bool {
	if q.closed {
		return false
	}
	if q.lookAsync(); q.failed {
		return q.told
	}
	if q.res.channel == noEvents {
		return false
	}
	q.readEvents() // one that came late: with its number the queue would not be armed again
	q.cq.tell(true)
	q.armed = true
	return len(q.sq.refused) == 0 && !q.cq.any()
}

// FDs implements device.QP.
func (q *QP) FDs() []int { return q.fds }

// readEvents reads the events of completions that have come.
func (q *QP) readEvents() {
	if q.res.channel == noEvents {
		return
	}
	for {
		var b [16 * abi.CompEventLen]byte
		n, err := q.res.channel.read(b[:], abi.CompEventLen)
		if err != nil {
			q.fail(device.StatusQPInternal, fmt.Errorf("completion channel: %w", err))
		}
		q.cq.serial += uint8(n)
		if n < len(b)/abi.CompEventLen {
			return
		}
	}
}

// lookAsync reads asynchronous events, also of a queue pair that has failed: what it saw may
// come of the device being gone.
func (q *QP) lookAsync() {
	if q.res.async == noEvents {
		return
	}
	for {
		var b [abi.AsyncEventLen]byte
		n, err := q.res.async.read(b[:], abi.AsyncEventLen)
		if err != nil {
			q.fail(device.StatusQPInternal, fmt.Errorf("asynchronous events: %w", err))
		}
		if n == 0 {
			return
		}
		var e abi.AsyncEvent
		_ = e.Parse(b[:])
		q.event(&e)
	}
}

// event deals with an asynchronous event. A port that is down ends nothing: what is sent
// then ends with a status.
func (q *QP) event(e *abi.AsyncEvent) {
	switch e.Type {
	case abi.EventCQError:
		q.fail(device.StatusQPInternal, fmt.Errorf("asynchronous event: completion queue in error"))
	case abi.EventQPFatal:
		q.fail(device.StatusQPInternal, fmt.Errorf("asynchronous event: queue pair in error"))
	case abi.EventDeviceFatal:
		q.dev.ctx.gone.Store(true)
		q.fail(device.StatusAbort, fmt.Errorf("asynchronous event: the device was reset or taken away"))
	case abi.EventPortActive, abi.EventPortError:
		q.dev.log.Info("uverbs: the port has changed", "device", q.dev.info.Name, "up", e.Type == abi.EventPortActive)
	}
}
