// Package mpi compiles and starts C programs under the implementations of MPI that the
// comparisons are with, and has the programs that several of them use.
package mpi
