// Package openmpi holds tests in which a distribution's Open MPI, unmodified, runs on the
// emulated device: its ranks talk by libfabric's EFA provider, which finds an EFA device.
//
// testdata/ranks.c is a program of the tests' own, whose ranks check every byte that they
// get from each other; NetPIPE is a benchmark of others. docs/mpi.md has what it takes.
//
// Without Open MPI, a compiler for it or what the emulator needs of the kernel the tests
// are skipped; with CI=true in the environment they fail.
package openmpi
