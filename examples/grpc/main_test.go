package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutput starts the two programs as a user would.
func TestOutput(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "grpc")
	out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	server := exec.Command(exe)
	lines, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer func() {
		require.NoError(t, server.Process.Kill())
		_ = server.Wait() // it was killed
	}()
	line := bufio.NewScanner(lines)
	require.True(t, line.Scan())
	out, err = exec.CommandContext(t.Context(), exe, "-connect", line.Text()).Output()
	require.NoError(t, err)
	require.Equal(t, "SERVING\n", string(out))
}
