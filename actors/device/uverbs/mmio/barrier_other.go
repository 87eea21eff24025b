//go:build !arm64 || purego

package mmio

// ReadBarrier orders the loads after it behind those before it, against what a device
// writes to ordinary memory: here the loads are so by themselves, if the first is atomic.
func ReadBarrier() {}
