package versus

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

const (
	// gap is how long a loop that does nothing else may be away before that counts as
	// time that others took: an interrupt is shorter.
	gap = 50 * time.Microsecond

	mostLost = 0.02 // of the time
	mostLoad = 0.5  // before the run
)

// Noise is what others do on this machine.
type Noise struct {
	Cores int     `json:"cores"`
	Load  float64 `json:"load"` // average of the last minute; below 0: unknown
	Lost  float64 `json:"lost"` // share of the time that loops on all cores did not run
}

// Listen finds out, by loops on all cores that run for some time.
func Listen(d time.Duration) Noise {
	n := Noise{Cores: runtime.GOMAXPROCS(0), Load: -1}
	if load, err := strconv.ParseFloat(Load(), 64); err == nil {
		n.Load = load
	}
	lost := make([]time.Duration, n.Cores)
	var loops sync.WaitGroup
	for i := range lost {
		loops.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			lost[i] = away(d)
		})
	}
	loops.Wait()
	var sum time.Duration
	for _, l := range lost {
		sum += l
	}
	n.Lost = float64(sum) / float64(d) / float64(n.Cores)
	return n
}

// away is for how long of the time the caller did not run.
func away(d time.Duration) (sum time.Duration) {
	began := clock.System.Now()
	for last := began; last.Sub(began) < d; {
		now := clock.System.Now()
		if pause := now.Sub(last); pause > gap {
			sum += pause
		}
		last = now
	}
	return sum
}

// Warnings says what makes figures of this machine mean little. The load is of before the
// run alone: the run itself is one.
func (n Noise) Warnings(before bool) (list []string) {
	if n.Cores < 2 {
		list = append(list, fmt.Sprintf("%d core: two processes that spin need two, so every figure of such is a time slice", n.Cores))
	}
	if before && n.Load > mostLoad {
		list = append(list, fmt.Sprintf("the load average is %.2f: other programs run here", n.Load))
	}
	if n.Lost > mostLost {
		list = append(list, fmt.Sprintf("loops on %d cores did not run for %.0f %% of the time: the machine is noisy or oversubscribed", n.Cores, 100*n.Lost))
	}
	return list
}
