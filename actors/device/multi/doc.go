// Package multi makes one device of several, best first, so that one endpoint lives
// on all of them: shared memory for peers on this host, sockets for the others.
//
//	      QP                     own numbers: address handles, receive slots
//	 path 0    path 1            one sub-device's queue pair each
//	shm.QP     tcp.QP
//
// An address handle belongs to the path that its GID was reached by when it was made:
// that of the first device that says it reaches it ([device.Reacher]). A region is
// registered on every device with one key and one address ([device.Keyed]), so that
// what names it to a peer holds whichever path the peer takes.
//
// Each path has send and receive queues of the full depth: a path that is blocked
// takes no room from the others.
//
// Start reading at device.go; qp.go is the hot path.
package multi
