package trial

import (
	"fmt"
	"time"
)

func (c *Case) systems() int { return len(c.Ours) + len(c.Peers) }

// effort is how many runs cases take, those that are the first of a contestant included.
func (r *Runner) effort(cases []Case) (sum int) {
	for i := range cases {
		c := &cases[i]
		rounds := c.RoundsOf(r.Rounds)
		if c.Pilot > 0 {
			rounds++
		}
		sum += rounds * c.systems()
	}
	return sum
}

// remaining estimates how long it takes to do all if some of it took so long, and that is
// done. There is an end after which nothing begins.
func remaining(took time.Duration, done, all int, end time.Duration) string {
	if done == 0 {
		return fmt.Sprintf("at most %.0fs", end.Seconds())
	}
	left := time.Duration(float64(took) * float64(all-done) / float64(done))
	return fmt.Sprintf("about %.0fs", min(left, end).Seconds())
}
