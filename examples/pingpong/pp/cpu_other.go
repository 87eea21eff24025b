//go:build !linux

package pp

// OtherCPU needs Linux: elsewhere a thread has no place.
func OtherCPU() []int { return nil }
