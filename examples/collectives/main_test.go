package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/internal/launchers"
	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// wantAll runs a command, which must print a line for each algorithm, all of them ok.
func wantAll(t *testing.T, env []string, name string, args ...string) (out string) {
	var log strings.Builder
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env, cmd.Stderr = env, &log
	said, err := cmd.Output()
	require.NoError(t, err, "%s%s", said, &log)
	out = string(said) + "\n"
	want := 0
	for _, name := range coll.Collectives() {
		for _, alg := range coll.Algorithms(name) {
			want++
			require.Regexp(t, name+` +`+alg+` .* ok\n`, out)
		}
	}
	require.Equal(t, want, strings.Count(out, " ok"))
	require.NotContains(t, out, "WRONG")
	return out
}

// TestOwnProcesses: without a launcher it starts processes of its own.
func TestOwnProcesses(t *testing.T) {
	exe := testenv.Program(t)
	for _, n := range []string{"4", "3", "1"} {
		if testenv.Short() && n != "4" {
			continue
		}
		require.Contains(t, wantAll(t, launchers.CleanEnv(), exe, "-n", n), n+" ranks, ")
	}
}

func TestUnderMpiexec(t *testing.T) {
	launchers.Need(t, "mpiexec.hydra")
	out := wantAll(t, launchers.CleanEnv(), "mpiexec.hydra", "-n", "4", testenv.Program(t))
	require.Contains(t, out, "4 ranks, hydra: PMI-1")
}

// TestUnderMpirun: Open MPI's mpirun, which has no PMI for us. Its ranks meet by themselves.
func TestUnderMpirun(t *testing.T) {
	launchers.Need(t, "mpirun.openmpi")
	out := wantAll(t, launchers.CleanEnv(), "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "4", testenv.Program(t))
	require.Contains(t, out, "4 ranks, openmpi")
}

func TestUnderSrun(t *testing.T) {
	s := launchers.StartSlurm(t)
	exe := testenv.Program(t)
	out := wantAll(t, s.Env(), "srun", "-n", "4", "--mpi=pmi2", exe)
	require.Contains(t, out, "4 ranks, slurm: PMI-2")
	if testenv.Short() {
		return
	}
	out = wantAll(t, s.Env(), "srun", "-N", "1", "-n", "4", exe) // MpiDefault is none
	require.Contains(t, out, "4 ranks, slurm: step")
}
