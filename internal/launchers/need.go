package launchers

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/efactor/efactor/internal/testenv"
)

// Need ends a test that runs these programs, if all tests are not to run or one is missing.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	testenv.NeedAll(t, strings.Join(programs, " and "))
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			testenv.Missing(t, "%s is not installed", name)
		}
	}
}

// CleanEnv is the environment without what launchers have set, and with some more.
func CleanEnv(add ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		for _, prefix := range []string{"EFACTOR_", "PMI_", "MPI_", "SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_", "RANK=", "WORLD_SIZE=", "MASTER_", "LOCAL_", "JOB_", "SERVICE_NAME="} {
			if strings.HasPrefix(v, prefix) {
				return true
			}
		}
		return false
	})
	return append(env, add...)
}
