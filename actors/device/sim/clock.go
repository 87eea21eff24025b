package sim

import (
	"sync/atomic"

	"github.com/efactor/efactor/runtime/clock"
)

// Clock is the time of a virtual fabric: it moves by Step and Fabric.AdvanceTo.
type Clock struct{ now atomic.Int64 }

// Now implements clock.Clock.
func (c *Clock) Now() clock.Time { return clock.Time(c.now.Load()) }

// advanceTo never goes back.
func (c *Clock) advanceTo(t clock.Time) {
	if t > c.Now() {
		c.now.Store(int64(t))
	}
}
