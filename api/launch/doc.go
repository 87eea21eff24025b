// Package launch forms a group of endpoints out of the processes of a job, with any
// launcher: Init gives each its rank, the number of ranks, and an endpoint with the
// addresses of all others.
//
//	g, err := launch.Init(ctx)
//	...
//	defer g.Close()
//	err = g.Endpoint.Send(ctx, g.Peers[(g.Rank+1)%g.Size], p)
//
// # Launchers
//
// The first of these is taken whose traces are there; Config.Launcher or EFACTOR_LAUNCHER
// names another. The launcher found is logged, and is Group.Launcher.
//
//	explicit    Config.Size is not 0
//	env         EFACTOR_RANK, EFACTOR_SIZE, EFACTOR_RENDEZVOUS, ...
//	torchrun    TORCHELASTIC_RUN_ID: torchrun itself, perhaps under one of the following
//	pmi         PMI_FD or PMI_PORT: mpiexec.hydra, srun --mpi=pmi2
//	openmpi     OMPI_COMM_WORLD_RANK
//	slurm       SLURM_STEP_ID: srun without PMI
//	torchrun    RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: others that speak like torchrun
//	kubernetes  JOB_COMPLETION_INDEX: an indexed Job
//	alone       nothing: one rank
//
// Traces that contradict each other or lack a part, and those of launchers that are not
// spoken, are an error, never a reason to go on with the next. docs/launch.md has the command lines, and all variables.
//
// # How ranks meet
//
// Over a [Job]'s board, on which each puts byte strings for the others: the key-value
// space of PMI, or a TCP rendezvous that rank 0 serves. Under a job secret the rendezvous
// is mutual TLS 1.3; without one it stays on this host, unless Config.Insecure allows
// more. After Init the board is not used. All of it happens within Config.Timeout, and
// the error at its end names the missing ranks. A rank that dies, gives up or is not of
// the same job ends the others' Init with an error that names it, as far as the launcher
// reveals it.
//
// Where to start reading: group.go (Init), then env.go (which launcher; launchers.go and
// pmi.go have them one by one) and job.go (the board, and how its ranks meet).
package launch
