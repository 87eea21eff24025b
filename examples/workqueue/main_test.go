package main

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// TestOutput starts the program as a user would.
func TestOutput(t *testing.T) {
	exe := testenv.Program(t)
	for name, c := range map[string]struct {
		args   []string
		tasks  int
		ranks  int
		primes string
	}{
		"as documented":         {nil, 1000, 4, "78498 primes below 1000000"},
		"one rank":              {[]string{"-ranks", "1", "-tasks", "10"}, 10, 1, "1229 primes below 10000"},
		"more ranks than tasks": {[]string{"-ranks", "5", "-tasks", "3"}, 3, 5, "430 primes below 3000"},
		"nothing to do":         {[]string{"-ranks", "2", "-tasks", "0"}, 0, 2, "0 primes below 0"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe, c.args...)
			var log strings.Builder
			cmd.Stderr = &log
			out, err := cmd.Output()
			require.NoError(t, err, log.String())
			m := regexp.MustCompile(`^(\d+) tasks, 0 not done, by rank: \[([\d ]+)\]\n(.*)\n$`).FindStringSubmatch(string(out))
			require.NotNil(t, m, string(out))
			assert.Equal(t, strconv.Itoa(c.tasks), m[1])
			assert.Equal(t, c.primes, m[3])
			sum, ranks := 0, strings.Fields(m[2])
			for _, s := range ranks {
				n, err := strconv.Atoi(s)
				require.NoError(t, err)
				sum += n
			}
			assert.Len(t, ranks, c.ranks)
			assert.Equal(t, c.tasks, sum, "every task is done once")
		})
	}
}
