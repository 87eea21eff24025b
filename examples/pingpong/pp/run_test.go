package pp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/examples/pingpong/ctrl"
	"github.com/efactor/efactor/internal/testenv"
)

func TestEverySizeChecked(t *testing.T) {
	for _, mode := range []efa.Progress{efa.ProgressManual, efa.ProgressPinned} {
		for _, tagged := range []bool{false, true} {
			t.Run(mode.String()+map[bool]string{false: "/msg", true: "/tagged"}[tagged], func(t *testing.T) {
				cfg := Config{
					Progress: mode, Tagged: tagged, Check: true, Iterations: 3, Warmup: 2,
					Sizes: []int{0, 1, 61, 62, 63, 8000, 9000, 16383, 16384, 65537, 200_000},
				}
				results, errs := match(t, within(t), cfg, cfg)
				require.Equal(t, [2]error{}, errs)
				for side := range results {
					require.Len(t, results[side], len(cfg.Sizes))
					for i, r := range results[side] {
						require.Equal(t, cfg.Sizes[i], r.Bytes)
						require.Equal(t, 3, r.Sent)
						require.Equal(t, 3, r.Acked)
						require.Positive(t, r.Elapsed)
						want := longRead
						switch {
						case r.Bytes <= 8000:
							want = eager
						case r.Bytes < 16384:
							want = medium
						}
						require.Equal(t, want, r.Protocol, r.Bytes)
					}
				}
			})
		}
	}
}

// TestAsManyAsSuit: the sides agree on how many messages there are, if nobody says it.
func TestAsManyAsSuit(t *testing.T) {
	cfg := Config{Check: true, Sizes: []int{1, 1 << 20}}
	results, errs := match(t, within(t), cfg, cfg)
	require.Equal(t, [2]error{}, errs)
	for i, client := range results[1] {
		server := results[0][i]
		require.Equal(t, client.Sent, server.Sent)
		require.Equal(t, client.Sent, client.Acked)
		require.GreaterOrEqual(t, client.Sent, fewestRounds)
		require.LessOrEqual(t, client.Sent, mostRounds)
		require.GreaterOrEqual(t, len(client.rounds), min(client.Sent, timedRounds/2), "evenly spread")
		require.LessOrEqual(t, len(client.rounds), timedRounds)
		require.LessOrEqual(t, client.Percentile(50), client.Percentile(99))
		require.Positive(t, server.Percentile(50))
	}
}

// TestDisagreement has partners that were started with different flags: both end
// soon, and at least one reports the reason.
func TestDisagreement(t *testing.T) {
	base := Config{Iterations: 5, Sizes: []int{8}}
	for _, c := range []struct {
		name   string
		change func(server, client *Config)
		server string // its error; "" if that depends on which is faster
		client string
	}{
		{"longer messages", func(_, c *Config) { c.Sizes = []int{16} }, "longer than 8 bytes: start both sides with the same -S", ""},
		{"shorter messages", func(_, c *Config) { c.Sizes = []int{4} }, "got a message of 4 bytes, want 8: start both sides with the same -S", ""},
		{"fewer messages", func(_, c *Config) { c.Iterations = 3 }, "after 3: the partner has finished already (start both sides with the same -I and -S)", ""},
		{"fewer sizes", func(_, c *Config) { c.Sizes = nil }, "", "last message of the partner"},
		{
			"unchecked client", func(s, _ *Config) { s.Check = true },
			`corrupt data: byte 0 of the 8 of message 0 is '\x00', want '0' (was -c given on both sides?)`,
			"messages of 8, after 0: the partner closed the control connection; it will have said why",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, client := base, base
			c.change(&server, &client)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			patience := ctrl.Patience
			fewer := c.name == "fewer sizes"
			if fewer { // each waits for the other to go on
				patience = time.Second
			}
			_, errs := impatient(t, ctx, patience, server, client)
			for fewer && errs[1] != nil && !strings.Contains(errs[1].Error(), c.client) { // the machine is busy: they didn't get as far
				patience *= 4
				require.Less(t, patience, testenv.Hang, errs)
				_, errs = impatient(t, ctx, patience, server, client)
			}
			require.ErrorContains(t, errs[0], c.server)
			if fewer { // it gives up, or it learns that the client does
				require.Regexp(t, `does not answer for \d+s .start both sides with the same -I and -S|it will have said why`, errs[0].Error())
			}
			require.ErrorContains(t, errs[1], c.client)
			require.NoError(t, ctx.Err())
		})
	}
}

func TestOtherFabric(t *testing.T) {
	cfg := Config{Iterations: 1, Sizes: []int{8}}
	other := cfg
	other.Device = "shm:" + filepath.Join(t.TempDir(), "other")
	_, errs := match(t, within(t), cfg, other)
	require.ErrorContains(t, errs[1], "the partner is not in "+other.Device+": shared memory joins processes of one host")
	require.Error(t, errs[0])
}

// Partners may have different GIDs, if they are in one directory.
func TestOtherHost(t *testing.T) {
	dir := "shm:" + filepath.Join(t.TempDir(), "fabric")
	cfg := Config{Iterations: 3, Sizes: []int{8, 1 << 20}, Check: true, Device: dir + "?host=here"}
	other := cfg
	other.Device = dir + "?host=there"
	_, errs := match(t, within(t), cfg, other)
	require.NoError(t, errs[0])
	require.NoError(t, errs[1])
}

func TestCanceledGame(t *testing.T) {
	why := errors.New("had enough")
	ctx, cancel := context.WithCancelCause(within(t))
	cfg := Config{Iterations: 1 << 30, Sizes: []int{8}, Device: "shm:" + filepath.Join(t.TempDir(), "fabric")}
	warm := cfg
	go func() {
		// Any moment is valid.
		s, err := Open(ctx, warm)
		if err == nil {
			err = s.Close()
		}
		cancel(errors.Join(why, err))
	}()
	_, errs := match(t, ctx, cfg, cfg)
	for _, err := range errs {
		require.Error(t, err)
		require.True(t, errors.Is(err, why) || errors.Is(err, ctrl.ErrGone) || errors.Is(err, efa.ErrPeerFailed), err)
	}
}

func TestOpenFails(t *testing.T) {
	for device, says := range map[string]string{
		"nope": `open device "nope"`,
		"sim":  `device "sim": invalid argument: it is a fabric inside one process, and ping-pong takes two`,
		"shm:" + filepath.Join(t.TempDir(), "a", "b"): "no such file or directory",
	} {
		_, err := Open(within(t), Config{Device: device})
		require.ErrorContains(t, err, says)
	}
}

func TestInfo(t *testing.T) {
	dir := "shm:" + filepath.Join(t.TempDir(), "fabric")
	s, err := Open(within(t), Config{Device: dir})
	require.NoError(t, err)
	require.Regexp(t, "^"+dir+` carries the traffic \(MTU 8760\), progress is (manual|pinned) \(auto: .+\)$`, s.Info().String())
	require.NoError(t, s.Close())

	s, err = Open(within(t), Config{Device: dir, Progress: efa.ProgressManual})
	require.NoError(t, err)
	require.Contains(t, s.Info().String(), "progress is manual (configured)")
	require.NoError(t, s.Close())
}

func TestCaptureFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.pcapng")
	cfg := Config{Iterations: 4, Sizes: []int{100}}
	tapped := cfg
	tapped.Capture = name
	_, errs := match(t, within(t), tapped, cfg)
	require.Equal(t, [2]error{}, errs)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "\x0a\x0d\x0d\x0a", string(b[:4]))
	require.Greater(t, len(b), 8*(100+64), "4 pings and 4 pongs")

	_, err = Open(within(t), Config{Device: "shm:" + filepath.Join(t.TempDir(), "fabric"), Capture: filepath.Join(name, "below")})
	require.ErrorContains(t, err, "capture: open ")
}
