//go:build linux

package rdmacore

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

// ready ends a test that cannot run here, or is not to run.
func ready(t *testing.T) {
	t.Helper()
	testenv.NeedAll(t, "rdma-core")
	if why := lack(); why != "" {
		testenv.Missing(t, "%s", why)
	}
}

// lack is the reason why the tests cannot run here; "": they can.
var lack = sync.OnceValue(func() string {
	if _, err := exec.LookPath("gcc"); err != nil {
		return "no gcc: install gcc and libc6-dev"
	}
	probe := exec.Command("gcc", "-x", "c", "-o", filepath.Join(built, "probe"), "-", "-lefa", "-libverbs")
	probe.Stdin = strings.NewReader("#include <infiniband/efadv.h>\nint main(void) { return !ibv_get_device_list(0); }\n")
	if out, err := probe.CombinedOutput(); err != nil {
		return fmt.Sprintf("no libefa to compile with: install libibverbs-dev and ibverbs-providers: %s", out)
	}
	path, err := emulator()
	if err != nil {
		return "" // that is the emulator's fault, for which the tests fail
	}
	if out, err := exec.Command(path, "check").CombinedOutput(); err != nil {
		return fmt.Sprintf("efaemu cannot run here: %s", out)
	}
	return ""
})

// emulator is efaemu, built from this tree.
var emulator = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "efaemu")
	args := []string{"build", "-o", path}
	if raceOn {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "../efaemu")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// programs are those that were compiled, by name: func() (path string, err error).
var programs sync.Map

// compiled returns the path of a program of testdata.
func compiled(t *testing.T, name string) string {
	t.Helper()
	ready(t)
	once, _ := programs.LoadOrStore(name, sync.OnceValues(func() (string, error) { return compile(name) }))
	path, err := once.(func() (string, error))()
	require.NoError(t, err)
	return path
}

func compile(name string) (string, error) {
	path := filepath.Join(built, name+".program")
	cmd := exec.Command("gcc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", path,
		filepath.Join("testdata", name+".c"), "-lefa", "-libverbs", "-lpthread")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return path, nil
}
