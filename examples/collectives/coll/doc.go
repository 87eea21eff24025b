// Package coll has the collectives of MPI for Go programs that talk by package
// efa: Barrier, Bcast, Reduce, Allreduce, Gather, Scatter, Allgather, Alltoall (and
// their v forms), ReduceScatter, Scan and Exscan, over slices of any element that
// has no pointers in it.
package coll
