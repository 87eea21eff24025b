package shm

// Stats counts what happened to the memory regions of a device, and of others that it
// wanted to reach.
type Stats struct {
	// Abandoned regions were closed while somebody copied who did not end.
	Abandoned uint64
	// Denied requests of ours ended with StatusBadAddress since the kernel does
	// not let this process reach the other one's memory. Denial explains the first.
	Denied uint64
	Denial error
}

// Counter is what a device of Open offers beside the methods that all have.
type Counter interface {
	Stats() Stats
}
