package mpi

import _ "embed" // the C programs

// Sources in C.
var (
	// Allreduce times calls of MPI_Allreduce: BYTES WARMUP ITERATIONS.
	//go:embed testdata/allreduce.c
	Allreduce []byte
	// PingPong times messages there and back: BYTES WARMUP ITERATIONS.
	//go:embed testdata/pingpong.c
	PingPong []byte
)
