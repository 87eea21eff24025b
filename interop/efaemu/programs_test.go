//go:build linux && (amd64 || arm64)

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/launchers"
	"github.com/efactor/efactor/internal/testenv"
)

// TestCollectivesOnCards: examples/collectives, unmodified, with its processes on emulated
// cards: started by itself, and by MPICH's mpiexec.
func TestCollectivesOnCards(t *testing.T) {
	needFeatures(t)
	testenv.Long(t, "a program on emulated cards, as in TestKVTransferOnCards")
	prog := filepath.Join(t.TempDir(), "collectives")
	out, err := exec.Command("go", "build", "-o", prog, "github.com/efactor/efactor/examples/collectives").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("EFACTOR_DEVICE", "efa")
	for name, line := range map[string]string{"alone": "", "mpiexec": "mpiexec.hydra -n 2 "} {
		t.Run(name, func(t *testing.T) {
			if name == "mpiexec" {
				launchers.Need(t, "mpiexec.hydra")
			}
			args := append([]string{"run", "-v", "-strict", fabric(t), "--"}, strings.Fields(line+prog+" -n 2")...)
			status, text, log := efaemu(t, args...)
			require.Zero(t, status, "%s%s", text, log)
			require.Greater(t, strings.Count(text, " ok\n"), 20, text)
			require.Regexp(t, `[0-9]{3,} packets sent`, log, "by the card")
		})
	}
}
