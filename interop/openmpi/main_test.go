//go:build linux

package openmpi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/interop/libfabric/emulator"
)

// built is the directory of the programs built for the tests.
var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "openmpi")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// lack is the reason why the tests cannot run here; "": they can.
var lack = sync.OnceValue(func() string {
	for _, program := range []string{"mpirun.openmpi", "mpicc.openmpi", "ompi_info"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Sprintf("no %s: install openmpi-bin and libopenmpi-dev", program)
		}
	}
	if out, err := exec.Command("ompi_info", "--param", "mtl", "ofi").CombinedOutput(); err != nil || !strings.Contains(string(out), "MCA mtl: ofi") {
		return fmt.Sprintf("this Open MPI was built without libfabric: %v\n%s", err, out)
	}
	if _, err := program(); err != nil {
		return err.Error()
	}
	return ""
})

// need ends a test that cannot run here, or is not to run.
func need(t *testing.T) {
	t.Helper()
	testenv.NeedAll(t, "Open MPI")
	if why := lack(); why != "" {
		testenv.Missing(t, "%s", why)
	}
}

// program is the emulator, built from this tree.
var program = sync.OnceValues(func() (emulator.Program, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return emulator.Build(ctx, built)
})

// ranks is testdata/ranks.c, compiled.
var ranks = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "ranks")
	out, err := exec.Command("mpicc.openmpi", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", path,
		filepath.Join("testdata", "ranks.c")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("mpicc: %w\n%s", err, out)
	}
	return path, nil
})

// compiled returns the path of ranks.
func compiled(t *testing.T) string {
	t.Helper()
	path, err := ranks()
	require.NoError(t, err)
	return path
}
