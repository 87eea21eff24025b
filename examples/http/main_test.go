package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutput starts both programs as a user would.
func TestOutput(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "http")
	out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	server := exec.Command(exe)
	says, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		require.NoError(t, server.Process.Kill())
		_ = server.Wait() // it was killed
	})
	line := bufio.NewScanner(says)
	require.True(t, line.Scan())
	for range 3 {
		out, err = exec.Command(exe, "-connect", line.Text()).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "hello, gopher\n", string(out))
	}
}
