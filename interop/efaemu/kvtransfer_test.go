//go:build linux && (amd64 || arm64)

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestKVTransferOnCards: examples/kvtransfer, unmodified, with both processes on emulated cards.
func TestKVTransferOnCards(t *testing.T) {
	needFeatures(t)
	prog := filepath.Join(t.TempDir(), "kvtransfer")
	out, err := exec.Command("go", "build", "-o", prog, "github.com/efactor/efactor/examples/kvtransfer").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("EFACTOR_DEVICE", "efa")
	status, text, log := efaemu(t, "run", "-v", "-strict", fabric(t), "--", prog, "-rounds", "2", "-pages", "2")
	require.Zero(t, status, "%s%s", text, log)
	require.Contains(t, text, "128 pages, all as they were written", log)
	require.Regexp(t, `[0-9]{2,} packets sent`, log, "by the card")
}
