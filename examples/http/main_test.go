package main

import (
	"bufio"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// TestOutput starts both programs as a user would.
func TestOutput(t *testing.T) {
	exe := testenv.Program(t)
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
		out, err := exec.Command(exe, "-connect", line.Text()).CombinedOutput()
		require.NoError(t, err, string(out))
		require.Equal(t, "hello, gopher\n", string(out))
	}
}
