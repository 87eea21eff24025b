package main

import (
	"slices"
	"time"

	"github.com/efactor/efactor/bench/internal/versus"
)

// result is a line of the table: one operation at one size.
type result struct {
	Op        string  `json:"op"`
	Ranks     int     `json:"ranks"`
	Size      int     `json:"size"`  // bytes, as nccl-tests counts them: see factor
	Count     int     `json:"count"` // elements of them
	Type      string  `json:"type"`
	Redop     string  `json:"redop"`     // "none" where nothing is reduced
	Algorithm string  `json:"algorithm"` // as package coll chose it
	Buffers   string  `json:"buffers"`   // "alloc" or "slice"
	Iters     int     `json:"iterations"`
	Avg       float64 `json:"avg_us"` // of the slowest rank
	Min       float64 `json:"min_us"` // of the calls of rank 0, as are the next two
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	AlgBW     float64 `json:"algbw_gbps"` // size by time, in 10^9 bytes per second
	BusBW     float64 `json:"busbw_gbps"` // algbw times the operation's factor
	Wrong     *int64  `json:"wrong"`      // elements of all ranks; null if not checked
}

// summary computes statistics from the times of the calls and the slowest rank's
// average.
func (r *result) summary(calls []time.Duration, slowest time.Duration, factor float64) {
	slices.Sort(calls)
	r.Iters = len(calls)
	r.Avg = micros(slowest)
	r.Min = micros(calls[0])
	r.P50 = micros(versus.Percentile(calls, 50))
	r.P99 = micros(versus.Percentile(calls, 99))
	if slowest > 0 {
		r.AlgBW = float64(r.Size) / float64(slowest.Nanoseconds())
	}
	r.BusBW = r.AlgBW * factor
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
