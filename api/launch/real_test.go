package launch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/launchers"
)

// TestHydra: MPICH's mpiexec, by descriptor and by port.
func TestHydra(t *testing.T) {
	launchers.Need(t, "mpiexec.hydra")
	for i, what := range []string{"board", "ring"} {
		for j, c := range []struct {
			name, launcher string
			n              int
			args           []string
		}{
			{"descriptor", "hydra: PMI-1 on descriptor", 4, nil},
			{"port", "hydra: PMI-1 on ", 3, []string{"-pmi-port"}},
			{"one", "hydra: PMI-1 on descriptor", 1, nil},
		} {
			t.Run(what+"/"+c.name, func(t *testing.T) {
				skipIf(t, i != j%2)
				args := append(c.args, "-n", strconv.Itoa(c.n), os.Args[0])
				reports, out, err := command(testContext(t), launchers.CleanEnv(childVar+"="+what), "mpiexec.hydra", args...)
				require.NoError(t, err, "%s", out)
				wantRanks(t, reports, c.n, c.launcher, out)
			})
		}
	}
}

// TestHydraPMI2: its other version, which it speaks if it is asked to.
func TestHydraPMI2(t *testing.T) {
	launchers.Need(t, "mpiexec.hydra")
	reports, out, err := command(testContext(t), launchers.CleanEnv(childVar+"=board", "EFACTOR_PMI=2"), "mpiexec.hydra", "-n", "3", os.Args[0])
	require.NoError(t, err, "%s", out)
	wantRanks(t, reports, 3, "hydra: PMI-2 on descriptor", out)
}

// TestHydraTwice: a second time is an error, not a job of one.
func TestHydraTwice(t *testing.T) {
	launchers.Need(t, "mpiexec.hydra")
	reports, out, err := command(testContext(t), launchers.CleanEnv(childVar+"=twice"), "mpiexec.hydra", "-n", "1", os.Args[0])
	require.Error(t, err, "%s", out)
	require.Len(t, reports, 1, "%s", out)
	assert.Contains(t, reports[0].Err, "PMI knows no second time")
}

// TestHydraSeesDeath: mpiexec ends all ranks when one dies.
func TestHydraSeesDeath(t *testing.T) {
	launchers.Need(t, "mpiexec.hydra")
	for _, what := range []string{"dies", "aborts"} {
		t.Run(what, func(t *testing.T) {
			reports, out, err := command(testContext(t), launchers.CleanEnv(childVar+"="+what), "mpiexec.hydra", "-n", "3", os.Args[0])
			require.Error(t, err, "%s", out)
			noneSucceeds(t, reports)
		})
	}
}

// noneSucceeds: a rank may see the connection to its launcher end before it is ended itself.
func noneSucceeds(t *testing.T, reports []report) {
	for _, r := range reports {
		assert.NotEmpty(t, r.Err)
	}
}

// TestHydraAndABadVariable: a rank that fails before it meets the others ends them, too,
// with the reason.
func TestHydraAndABadVariable(t *testing.T) {
	launchers.Need(t, "mpiexec.hydra")
	// To files: mpiexec may end before it has passed on a rank's last output.
	dir := t.TempDir()
	line := "test $PMI_RANK != 1 || export EFACTOR_ADDR=nonsense; exec " + os.Args[0] + " > " + dir + "/$PMI_RANK 2>&1"
	why := false
	for try := 0; try < 10 && !why; try++ { // it may be ended itself before it has said all
		_, out, err := command(testContext(t), launchers.CleanEnv(childVar+"=board"), "mpiexec.hydra", "-n", "3", "sh", "-c", line)
		require.Error(t, err, "%s", out)
		for rank := range 3 {
			said, err := os.ReadFile(fmt.Sprintf("%s/%d", dir, rank))
			if errors.Is(err, fs.ErrNotExist) {
				continue // taken along before its shell had opened the file
			}
			require.NoError(t, err)
			if rank == 1 {
				why = strings.Contains(string(said), "report ") && strings.Contains(string(said), "nonsense")
				continue
			}
			assert.NotContains(t, string(said), `"Err":""`)
			assert.NotContains(t, string(said), "nonsense")
		}
	}
	assert.True(t, why)
}

// TestSlurm: srun with PMI-2, and without any PMI.
func TestSlurm(t *testing.T) {
	s := launchers.StartSlurm(t)
	for i, what := range []string{"board", "ring"} {
		for j, c := range []struct {
			name, launcher string
			vars, args     []string
		}{
			{"pmi2", "slurm: PMI-2 on descriptor", nil, []string{"-N1", "--mpi=pmi2"}},
			{"pmi2 on two nodes", "slurm: PMI-2 on descriptor", nil, []string{"-N2", "--mpi=pmi2"}},
			{"none", "slurm: step ", nil, []string{"-N1", "--mpi=none"}},
			{
				"none on two nodes", "slurm: step ",
				[]string{"EFACTOR_RENDEZVOUS=127.0.0.1:" + strconv.Itoa(freeport.Get(t))},
				[]string{"-N2", "--mpi=none"},
			},
		} {
			t.Run(what+"/"+c.name, func(t *testing.T) {
				skipIf(t, j != 2*i+1) // PMI-2 and none, on two nodes each
				args := append(c.args, "-n", "4", os.Args[0])
				reports, out, err := command(testContext(t), s.Env(append(c.vars, childVar+"="+what)...), "srun", args...)
				require.NoError(t, err, "%s", out)
				wantRanks(t, reports, 4, c.launcher, out)
			})
		}
	}
	t.Run("nodes without addresses", func(t *testing.T) { // n0 is no host: Init ends, and reports which names it tried
		skipIf(t, true)
		args := []string{"-N2", "-n", "2", "--mpi=none", os.Args[0]}
		_, out, err := command(testContext(t), s.Env(childVar+"=board", "EFACTOR_TIMEOUT=3s"), "srun", args...)
		require.Error(t, err)
		assert.Contains(t, out, "n0")
		assert.Contains(t, out, "EFACTOR_INSECURE=1")
	})
	t.Run("dies", func(t *testing.T) {
		reports, out, err := command(testContext(t), s.Env(childVar+"=dies"), "srun", "-K", "-n", "3", "--mpi=pmi2", os.Args[0])
		require.Error(t, err, "%s", out)
		noneSucceeds(t, reports)
	})
	for n, want := range map[int]string{1: "this process is alone", 2: "started by hand in the interactive step"} {
		t.Run("by hand, "+strconv.Itoa(n), func(t *testing.T) { // from a shell under srun --pty
			skipIf(t, n > 1)
			launchers.Need(t, "script")
			file := filepath.Join(t.TempDir(), "said") // a terminal may be gone before all was passed on
			line := fmt.Sprintf("srun -n %d --mpi=none --pty sh -c 'test $SLURM_PROCID != 0 || %s 2>&1 | tee %s; exit 0'", n, os.Args[0], file)
			_, out, err := command(testContext(t), s.Env(childVar+"=board"), "script", "-qec", line, os.DevNull)
			require.NoError(t, err, "%s", out)
			said, err := os.ReadFile(file)
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(said), want)
		})
	}
	t.Run("outside of a step", func(t *testing.T) { // a batch script has some of Slurm's variables, and is alone
		skipIf(t, true)
		args := []string{"-n", "4", "-W", "-o", s.Dir + "/batch.out", "--wrap", os.Args[0]}
		_, out, err := command(testContext(t), s.Env(childVar+"=board"), "sbatch", args...)
		require.NoError(t, err, "%s", out)
		text, err := os.ReadFile(s.Dir + "/batch.out")
		require.NoError(t, err)
		assert.Contains(t, string(text), `"Size":1`)
		assert.Contains(t, string(text), "this process is alone")
	})
}
