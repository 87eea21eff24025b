package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWaterfall starts the program as a user would and reads its drawing.
func TestWaterfall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	exe := filepath.Join(t.TempDir(), "tracing")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.CommandContext(ctx, exe).CombinedOutput()
	text := string(out)
	require.NoError(t, err, text)
	for _, want := range []string{
		"matched", "back-off", "unexpected", "protocol=long-CTS", "protocol=eager", "rdma posted", "handshake received",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "FAILED")
	// The two sides of the long message stand together, the receiver's with a wait.
	both := regexp.MustCompile(`(?s)\n[0-9a-f]{32}\n([^\n]*\n)*?  \|[ =]+\| (sender|receiver) +\w+ [^\n]*protocol=long-CTS[^\n]*\n` +
		`(  \|[^\n]*\+[^\n]*\n)+  \|[ =]+\| (sender|receiver) +\w+ [^\n]*protocol=long-CTS`)
	require.Regexp(t, both, text)
}
