package main

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/examples/cache/kv"
	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// TestOutput starts the program as a user would.
func TestOutput(t *testing.T) {
	exe := testenv.Program(t)
	for name, c := range map[string]struct {
		args []string
		want string // puts and gets are what the ranks' seeds make
	}{
		"as documented": {nil, `4 ranks, 16 keys
  4973 puts, 4973 of them in the entries' versions
 15027 gets, \d+ found, 0 wrong
`},
		"all at one key": {[]string{"-keys", "1", "-ops", "10000", "-ranks", "3"}, `3 ranks, 1 keys
  7573 puts, 7573 of them in the entries' versions
 22427 gets, \d+ found, 0 wrong
`},
		"one rank": {[]string{"-ranks", "1", "-ops", "500"}, `1 ranks, 16 keys
   125 puts, 125 of them in the entries' versions
   375 gets, \d+ found, 0 wrong
`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, exe, c.args...)
			var log strings.Builder
			cmd.Stderr = &log
			out, err := cmd.Output()
			require.NoError(t, err, log.String())
			assert.Regexp(t, regexp.MustCompile(`^`+c.want+`$`), string(out))
		})
	}
}

// TestWhole: the program accepts exactly the values that a put writes.
func TestWhole(t *testing.T) {
	a, b := value("key 1", 0, 41), value("key 1", 1, 41)
	assert.True(t, whole("key 1", a))
	assert.False(t, whole("key 2", a), "of another key")
	assert.False(t, whole("key 1", nil))
	assert.False(t, whole("key 1", a[:len(a)-1]), "cut off")
	assert.False(t, whole("key 1", append(bytes.Clone(a), b...)), "of two puts")
	half := len(a) / 2
	assert.False(t, whole("key 1", append(bytes.Clone(a[:half]), b[half:]...)), "torn")
	for i := range 100 {
		assert.LessOrEqual(t, len(value("key 15", 15, i)), kv.MaxValue)
	}
}
