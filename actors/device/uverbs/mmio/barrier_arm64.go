//go:build !purego

package mmio

// ReadBarrier orders the loads after it behind those before it, against what a device
// writes to ordinary memory.
func ReadBarrier()
