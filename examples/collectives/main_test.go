package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/examples/collectives/coll"
)

// TestFourProcesses: the program runs all on processes of its own, and has a line
// for each algorithm, all of them ok.
func TestFourProcesses(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "collectives")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, n := range []string{"4", "3", "1"} {
		var log strings.Builder
		cmd := exec.CommandContext(t.Context(), exe, "-n", n)
		cmd.Stderr = &log
		out, err := cmd.Output()
		require.NoError(t, err, "%s%s", out, &log)
		want := 0
		for _, name := range coll.Collectives() {
			for _, alg := range coll.Algorithms(name) {
				want++
				require.Regexp(t, name+` +`+alg+` .* ok\n`, string(out)+"\n")
			}
		}
		require.Equal(t, want, strings.Count(string(out), " ok"))
		require.NotContains(t, string(out), "WRONG")
	}
}
