// Package contest has efactor and other systems stream the same messages (package flow), in
// turns within one run, and prints a table of them: libfabric's shm provider and MPI, by C
// programs of this package's own that are compiled when they are needed. The whole comparison
// has more of them: UCX, libfabric over tcp, and several senders to one receiver.
package contest
