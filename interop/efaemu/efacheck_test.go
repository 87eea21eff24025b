//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

// TestFaultFlag: a command fails when the list says so, and a list without sense is refused.
func TestFaultFlag(t *testing.T) {
	status, _, log := efaemu(t, "run", fabric(t), "-fault", "command@2=ENOMEM", "--", os.Args[0])
	require.Equal(t, 1, status, log)
	status, out, log := efaemu(t, "run", fabric(t), "-fault", "command@3", "--", os.Args[0])
	require.Zero(t, status, "%s%s: it has two commands", out, log)
	status, _, log = efaemu(t, "run", "-fault", "surprise@1", "--", "true")
	require.Equal(t, statusUsage, status)
	require.Contains(t, log, "surprise@1")
	_, _, log = efaemu(t, "run", "-fault", "help", "--", "true")
	require.Contains(t, log, "memlock=bytes")
}

// TestEfacheck: the self-test for cards finds nothing wrong with the emulated one, and
// nothing that differs from its table; another card differs, and nothing fails there either.
func TestEfacheck(t *testing.T) {
	needFeatures(t)
	testenv.Long(t, "a program checks two emulated cards")
	check := filepath.Join(t.TempDir(), "efacheck")
	out, err := exec.Command("go", "build", "-o", check, "github.com/efactor/efactor/examples/efacheck").CombinedOutput()
	require.NoError(t, err, "%s", out)
	status, text, log := efaemu(t, "run", "-strict", fabric(t), "--", check)
	require.Zero(t, status, "%s%s", text, log)
	require.Contains(t, text, "Nothing differs from the emulator.\n")
	require.NotContains(t, text, "FAIL")
	status, text, log = efaemu(t, "run", "-strict", "-profile", "strict", fabric(t), "--", check)
	require.Zero(t, status, "%s%s", text, log)
	require.Contains(t, text, "differences from the emulator:\n")
	require.Contains(t, text, "  * RDMA write: true; the emulator: false\n")

	status, text, log = efaemu(t, "run", fabric(t), "--", check, "-device", "efa_9")
	require.Equal(t, 1, status)
	require.Empty(t, text)
	require.Contains(t, log, `efacheck: no card to check: `)
	require.Contains(t, log, `there is no EFA device "efa_9" on this host`)
}
