package shm

// Stats has counters of the memory regions of a device, and of requests to those of
// others.
type Stats struct {
	// Abandoned regions were closed during a copy that did not end.
	Abandoned uint64
	// Denied counts our requests that ended with StatusBadAddress or StatusUnreachable
	// since the kernel does not let this process access the other one's memory. Denial
	// explains the first.
	Denied uint64
	Denial error
}

// Counter is implemented by the devices of Open beside device.Device.
type Counter interface {
	Stats() Stats
}
