//go:build unix

package efa_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// sigStop stops a process.
const sigStop = syscall.SIGSTOP

// stopProcess stops a process and waits until all its threads are.
func stopProcess(t *testing.T, p *os.Process) {
	require.NoError(t, p.Signal(sigStop))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())
}
