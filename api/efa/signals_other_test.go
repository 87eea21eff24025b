//go:build !unix

package efa_test

import (
	"os"
	"syscall"
	"testing"
)

// sigStop is never sent here: shm and tcp need Linux, and their tests skip elsewhere.
const sigStop = syscall.Signal(-1)

// stopProcess is never reached, for the same reason.
func stopProcess(t *testing.T, _ *os.Process) { t.Fatal("no process is stopped here") }
