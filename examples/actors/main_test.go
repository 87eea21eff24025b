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

// TestOutput starts the program as a user would: all primes are counted, though a process dies.
func TestOutput(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "actors")
	out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err = exec.CommandContext(ctx, exe, "-tasks", "200").Output()
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`(?s)^killing 127\.0\.0\.1:\d+
worker \S+: AddressTerminated
worker \S+: AddressTerminated
148933 primes below 2000000, by 200 tasks; 2 workers were spawned again
$`), string(out))
}
