package versus

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

const (
	apartTrips = 500
	apartTries = 5
	// apartLimit ends a try on a machine with one core, where each trip takes a time slice.
	apartLimit = 2 * time.Millisecond
)

// Apart is how many nanoseconds a cache line takes from one core to another: some 20 between
// the threads of one core, 30 to 60 between cores that share a cache, 100 to 250 between others.
// A hypervisor may move its CPUs from one to the other at any time, and with it all figures
// of processes that share memory. It is the least of a few tries, or 0 if none came to an end: there is one core, or others use it.
func Apart() (ns float64) {
	for range apartTries {
		if x := apart(); x > 0 && (ns == 0 || x < ns) {
			ns = x
		}
	}
	return ns
}

// apart is one try; 0: it took too long.
func apart() float64 {
	var (
		line struct {
			_ [128]byte
			atomic.Int64
			_ [128]byte
		}
		stop  atomic.Bool
		other sync.WaitGroup
	)
	other.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for n := int64(1); n < 2*apartTrips && !stop.Load(); {
			if line.CompareAndSwap(n, n+1) {
				n += 2
			}
		}
	})
	defer other.Wait()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, half := clock.System.Now(), clock.Time(0)
	for n := int64(0); n < 2*apartTrips; {
		switch {
		case !line.CompareAndSwap(n, n+1):
			if clock.System.Now().Sub(began) > apartLimit {
				stop.Store(true)
				return 0
			}
		case n == apartTrips: // both have run by now
			half = clock.System.Now()
			n += 2
		default:
			n += 2
		}
	}
	return float64(clock.System.Now().Sub(half)) / apartTrips
}
