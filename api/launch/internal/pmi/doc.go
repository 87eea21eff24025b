// Package pmi is a client of the process management interface by which MPI launchers talk
// to the processes that they start: PMI-1 (mpiexec.hydra and many others) and PMI-2 (srun
// --mpi=pmi2). Both have a key-value space and a barrier, which is all that is used here.
//
// The first exchange is the same in both, and the answer decides which of them it is. Then
// PMI-1 speaks in lines of words, cmd=put kvsname=k key=a value=b, and PMI-2 in records
// of a length and fields, cmd=kvs-put;key=a;value=b; with semicolons doubled in values.
// Launchers bound values to about a thousand characters of which not all arrive, so that
// ours are base64, cut into parts.
//
// A launcher's messages are checked like all input from outside; after the first invalid
// one the connection is not used any more.
package pmi
