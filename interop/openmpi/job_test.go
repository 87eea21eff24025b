//go:build linux

package openmpi

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/launchers"
)

// patience is how long a job may take on a machine that is busy with others.
const patience = 4 * time.Minute

// mpirun is the line that starts ranks: messages go by libfabric's EFA provider or the
// job fails, and ranks that wait leave the processor to the emulator.
func mpirun(n int, more ...string) []string {
	return append([]string{
		"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
		"--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "opal_common_ofi_provider_include", "efa",
		"--mca", "mpi_yield_when_idle", "1", "-n", strconv.Itoa(n),
	}, more...)
}

// One-sided operations are messages, or libfabric's own.
var (
	pt2pt = []string{"--mca", "osc", "pt2pt"}
	rdma  = []string{"--mca", "osc", "rdma", "--mca", "btl", "ofi,self"}
)

// emulated is a line under the emulator, which counts, and is strict.
func emulated(t *testing.T, fabric string, flags, line []string) []string {
	t.Helper()
	need(t)
	p, err := program()
	require.NoError(t, err)
	return append(append(append([]string{string(p), "run", "-strict", "-v", "-fabric", fabric}, flags...), "--"), line...)
}

// result is what came of a job.
type result struct {
	out, log string
	err      error
}

// run waits for a job. Ranks on one host are to use the device, not libfabric's shared
// memory, unless env says otherwise.
func run(t *testing.T, line, env []string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var log strings.Builder
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = launchers.CleanEnv(append([]string{"FI_EFA_ENABLE_SHM_TRANSFER=0"}, env...)...)
	cmd.Stderr, cmd.WaitDelay = &log, 20*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // mpirun ends its ranks then
	out, err := cmd.Output()
	return result{string(out), log.String(), err}
}

// newFabric is a directory for a fabric, which must be empty in the end.
func newFabric(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "openmpi") //nolint:usetesting // not on a disk
	require.NoError(t, err)
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir, "fabric", "*"))
		require.NoError(t, err)
		require.Empty(t, left, "left on the fabric")
		require.NoError(t, os.RemoveAll(dir))
	})
	return filepath.Join(dir, "fabric")
}

// count is one of the emulator's counters, 0 if it is not there.
func (r result) count(t *testing.T, name string) (n int) {
	t.Helper()
	for _, m := range regexp.MustCompile(`efaemu: +(\d+) `+regexp.QuoteMeta(name)+"\n").FindAllStringSubmatch(r.log, -1) {
		one, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		n += one
	}
	return n
}
