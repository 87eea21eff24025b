//go:build linux

package rdmacore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
)

// swing starts a program of two processes and returns their numbers once both are
// under way.
func swing(t *testing.T) (s *session, parent, child int) {
	t.Helper()
	s = start(t, launch{program: "busy", follow: true})
	numbers := map[string]int{}
	for range 2 {
		var role string
		var number int
		_, err := fmt.Sscan(s.line(t), &role, &number)
		require.NoError(t, err)
		numbers[role] = number
	}
	require.Len(t, numbers, 2)
	return s, numbers["parent"], numbers["child"]
}

// dead waits until a process is gone.
func dead(t *testing.T, pid int) {
	t.Helper()
	end := clock.System.Now().Add(patience)
	for unix.Kill(pid, 0) == nil {
		require.Less(t, clock.System.Now(), end, "process %d lives", pid)
		_, _ = unix.Poll(nil, 1)
	}
}

// A program that is killed while it sends, receives and reads leaves nothing behind.
func TestKilled(t *testing.T) {
	t.Parallel()
	s, parent, child := swing(t)
	require.NoError(t, unix.Kill(child, unix.SIGKILL))
	require.NoError(t, unix.Kill(parent, unix.SIGKILL))
	assert.Equal(t, 128+int(unix.SIGKILL), s.wait(t), "exit status")
	assert.Empty(t, s.err.String(), "on stderr")
	assertEmpty(t, s.fabric)
}

// When the supervisor is killed its programs are too; the next supervisor on the
// fabric clears away what it left.
func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	s, parent, child := swing(t)
	require.NoError(t, s.Process.Kill())
	assert.Equal(t, -1, s.wait(t), "exit status")
	dead(t, parent)
	dead(t, child)
	start(t, launch{program: "handle", fabric: s.fabric}).good(t)
}
