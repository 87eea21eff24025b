package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// TestOutput starts the program as a user would. Apart from the first line the output does
// not depend on the number of ranks.
func TestOutput(t *testing.T) {
	exe := testenv.Program(t)
	for _, c := range []struct{ args, want string }{
		{"", "4 ranks, 20000 points" + documented},
		{"-ranks 1", "1 ranks, 20000 points" + documented},
		{"-ranks 3", "3 ranks, 20000 points" + documented},
		{"-ranks 5 -points 3 -clusters 2", "5 ranks, 3 points" + few}, // ranks without points
	} {
		t.Run(c.args, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe, strings.Fields(c.args)...)
			var log strings.Builder
			cmd.Stderr = &log
			out, err := cmd.Output()
			require.NoError(t, err, log.String())
			assert.Equal(t, c.want, string(out))
		})
	}
}

const documented = `: after 15 steps none changes its cluster
  4043 points around (692694, 551266)
  4015 points around (306441, 131359)
  3976 points around (820453, 591973)
  4021 points around (592361, 92450)
  3945 points around (721824, 19065)
the serial result is the same
`

const few = `: after 2 steps none changes its cluster
     1 points around (575880, 160079)
     2 points around (662968, 28398)
the serial result is the same
`
