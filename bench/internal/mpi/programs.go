package mpi

import _ "embed" // the C programs

// Sources in C.
var (
	// Allreduce times calls of MPI_Allreduce: BYTES WARMUP ITERATIONS.
	//go:embed testdata/allreduce.c
	Allreduce []byte
	// Each times messages that are matched each with one of many: DEPTH ROUNDS CAME RANDOM.
	//go:embed testdata/each.c
	Each []byte
	// PingPong times messages there and back: BYTES WARMUP ITERATIONS.
	//go:embed testdata/pingpong.c
	PingPong []byte
)
