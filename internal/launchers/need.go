package launchers

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Need ends the test if a program is missing: without a word of blame, but not in CI.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			skip(t, "%s is not installed", name)
		}
	}
}

func skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
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
