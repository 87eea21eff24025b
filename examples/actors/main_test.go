package main

import (
	"context"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// TestOutput starts the program as a user would: all primes are counted, though a process dies.
func TestOutput(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Hang)
	defer cancel()
	out, err := exec.CommandContext(ctx, testenv.Program(t), "-tasks", "200").Output()
	require.NoError(t, err)
	require.Regexp(t, regexp.MustCompile(`(?s)^killing 127\.0\.0\.1:\d+
worker \S+: AddressTerminated
worker \S+: AddressTerminated
148933 primes below 2000000, by 200 tasks; 2 workers were spawned again
$`), string(out))
}
