// Package contest has efactor and other systems stream the same messages (package flow), in
// turns within one run, and prints a table of them: libfabric's shm provider and MPICH, by C
// programs of this package's own that are compiled when they are needed.
package contest
