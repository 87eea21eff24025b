package check

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestExpected: the emulator's table has an answer on every line, and no name twice.
func TestExpected(t *testing.T) {
	require.Len(t, expected(), strings.Count(emulator, "\n"))
	require.Equal(t, "receiver not ready", expected()["no receive, no retries"])
}

// TestReport: what differs, what nobody has asked the emulator, and what failed stands at the
// end, too.
func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := report{out: &out, want: map[string]string{"a": "1", "b": "2"}}
	var o outcome
	o.say("a", "%d", 1)
	o.figure = "7 us"
	r.step("first", &o, time.Millisecond, nil)
	r.end()
	require.Contains(t, out.String(), "ok   first                     1.0 ms  7 us\n       a: 1\nNothing differs from the emulator.\n")
	out.Reset()
	o.say("b", "3")
	o.say("c", "4")
	r.step("second", &o, time.Millisecond, errors.New("broken"))
	r.end()
	require.Equal(t, 1, r.failed)
	for _, line := range []string{
		"FAIL second", "          broken\n", "       b: 3   <- differs\n", "3 differences from the emulator:\n",
		"  * second failed: broken\n", "  * b: 3; the emulator: 2\n", "  * c: 4; nobody has asked the emulator\n",
	} {
		require.Contains(t, out.String(), line)
	}
	out.Reset()
	bare := report{out: &out, bare: true}
	bare.begin("efa")
	bare.step("second", &o, 0, nil)
	bare.end()
	require.Equal(t, "a: 1\nb: 3\nc: 4\n", out.String())
}

// TestNoCard: a host without a card of the name is refused in one line.
func TestNoCard(t *testing.T) {
	var out bytes.Buffer
	failed, err := Run(context.Background(), Config{Device: "no-such-card", Out: &out})
	require.Zero(t, failed)
	require.ErrorContains(t, err, "no card to check: ")
	require.Empty(t, out.String())
	require.ErrorContains(t, guard(func() error { panic("a bug") }), "panic: a bug")
}

// TestPattern: what is not what was sent is found.
func TestPattern(t *testing.T) {
	b := make([]byte, 1000)
	fill(b, 3)
	require.NoError(t, holds(b, 1000, 3))
	require.Error(t, holds(b, 999, 3))
	require.Error(t, holds(b, 1000, 4))
	b[777]++
	require.ErrorContains(t, holds(b, 1000, 3), "byte 777 of 1000")
}
