package device

// Foreign is what a [Device] may offer beside its methods: memory of another
// process as a region. The emulator of an EFA device needs it, whose applications
// own their memory.
type Foreign interface {
	// RegisterForeign makes the n bytes at addr of process pid known for the
	// remote accesses in a; requests call the first byte addr. Bytes of the region
	// is nil and Remote true, and it cannot be the local side of RDMA. A process
	// that has ended, or memory that it has unmapped, ends requests with
	// StatusBadAddress; its memory is reached with the kernel's leave
	// (ptrace_may_access) at the time of the request.
	RegisterForeign(pid int, addr uint64, n int, a Access) (MR, error)
}

// RNRSetter is what a [QP] may offer beside its methods: to set RNRRetry after it
// was opened, as verbs do it on the way to RTS, before the first PostSend.
type RNRSetter interface {
	SetRNRRetry(n uint8)
}
