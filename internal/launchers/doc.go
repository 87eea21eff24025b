// Package launchers starts programs for tests as users start them: under MPICH's mpiexec,
// or in a Slurm cluster of the test's own, with two nodes that are this host.
package launchers
