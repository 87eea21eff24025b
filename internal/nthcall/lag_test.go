//go:build linux && (amd64 || arm64)

package nthcall

import (
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// lag is the time for which this process was not run although it wanted to: the machine's
// doing, which no row is to answer for.
type lag struct{ sum atomic.Int64 }

// watch adds to it as long as the process lives.
func (l *lag) watch() {
	const every = 10 * time.Millisecond
	for last := clock.System.Now(); ; {
		t := clock.NewTimer(every)
		<-t.C
		now := clock.System.Now()
		l.sum.Add(int64(max(0, now.Sub(last)-every)))
		last = now
	}
}

func (l *lag) read() time.Duration { return time.Duration(l.sum.Load()) }
