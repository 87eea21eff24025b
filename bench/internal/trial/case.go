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
	Ours  []Contestant // with names that are added to the case's, "" or "/slice"
	Peers []Contestant
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
	// Tails are percentiles, by their names, in the unit of the value.
	Tails map[string]float64
}
