//go:build !linux

package sys

import "math"

// FreeMemory is how many bytes of memory this process may still use. Only Linux tells.
func FreeMemory() (uint64, error) { return 0, ErrUnsupported }

// Crowded knows nothing.
func Crowded() (crowded, known bool) { return false, false }

// CPULimit is +Inf: there are no cgroups.
func CPULimit() float64 { return math.Inf(1) }
