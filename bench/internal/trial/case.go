package trial

import (
	"context"
	"time"
)

// Case is something to measure.
type Case struct {
	Name   string // "latency/shm/8B"
	Unit   string // of the figures
	Higher bool   // figures are better
	Size   int    // of a message, for the plots
	// Pilot is how many operations a first run has that finds out how many fill the time;
	// it does not count. 0: every run is one operation, and takes as long as it takes.
	Pilot int
	// Rounds are fewer than others have, if the case is one of those that take long or whose
	// figure hardly varies. 0: as many.
	Rounds int
	Zero   bool         // may be a figure
	Ours   []Contestant // with names that are added to the case's, "" or "/slice"
	Peers  []Contestant
}

// RoundsOf is how many the case has where others have n.
func (c *Case) RoundsOf(n int) int {
	if c.Rounds > 0 {
		return min(c.Rounds, n)
	}
	return n
}

// Contestant is a system, or a way to use one.
type Contestant struct {
	Name string
	// Run does n operations, or a few more.
	Run func(ctx context.Context, n int) (Sample, error)
}

// Sample is what a run came to.
type Sample struct {
	Value float64
	// Each is the time of one operation.
	Each time.Duration
	// Tails are percentiles, by their names, in the unit of the value; or other figures of the run.
	Tails map[string]float64
}
