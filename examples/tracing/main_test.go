package main

import (
	"context"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// TestWaterfall starts the program as a user would and reads its drawing.
func TestWaterfall(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, testenv.Program(t)).CombinedOutput()
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
