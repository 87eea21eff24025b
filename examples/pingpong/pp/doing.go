package pp

import (
	"fmt"
	"sync/atomic"
	"time"
)

// doing is the round that a Side plays.
type doing struct {
	bytes     int
	at, sizes int // of Config.Sizes, from 1 on
	count     int // messages each way
	warmup    bool
	began     time.Time
	done      atomic.Int64 // of count
}

// Doing says in a few words what the Side is doing at now, "" before and after the rounds. Any
// goroutine may call it.
func (s *Side) Doing(now time.Time) string {
	d := s.round.Load()
	if d == nil {
		return ""
	}
	done, what := int(d.done.Load()), "messages"
	if d.warmup {
		what = "messages of the warm-up"
	}
	return fmt.Sprintf("%s bytes, size %d of %d: %d of %d %s%s",
		sizeText(uint64(d.bytes)), d.at, d.sizes, done, d.count, what, remaining(now.Sub(d.began), done, d.count))
}

// remaining estimates how long the rest of a round takes; "" if nothing is known yet.
func remaining(took time.Duration, done, all int) string {
	if done == 0 || done >= all {
		return ""
	}
	left := float64(took) * float64(all-done) / float64(done)
	return fmt.Sprintf(", about %.0fs left", time.Duration(left).Seconds())
}
