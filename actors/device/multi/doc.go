// Package multi makes one device of several, best first, so that one endpoint lives
// on all of them: shared memory for peers on this host, sockets for the others.
//
//	      QP                     own numbers: address handles, receive slots
//	 path 0    path 1            one sub-device's queue pair each
//	shm.QP     tcp.QP
//
// An address handle belongs to the path that its GID was reached by when it was made:
// that of the first device that Reaches it. One that reaches every GID leaves nothing to
// those behind it. A region is registered on every device, which each give it an address
// and keys of their own (Parts of [device.MR]).
//
// What belongs to one device is refused: receives into the caller's buffers, and memory
// of other processes or devices. The queue pair ends with the first path that does
// ([device.OpFatal]).
//
// Each path has send and receive queues of the full depth: a path that is blocked
// takes no room from the others.
//
// Start reading at device.go; qp.go is the hot path.
package multi
