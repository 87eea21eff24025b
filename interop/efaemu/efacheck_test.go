//go:build linux && (amd64 || arm64)

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEfacheck: the self-test for cards finds nothing wrong with the emulated one, and
// nothing that differs from its table; another card differs, and nothing fails there either.
func TestEfacheck(t *testing.T) {
	needFeatures(t)
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
