package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is also the processes.
func TestMain(m *testing.M) {
	if process() {
		return
	}
	os.Exit(m.Run())
}

// TestReturns: a peer that was stopped until all others had failed it is taken back by all, and
// nothing that was reported sent is lost. There are no foes.
func TestReturns(t *testing.T) {
	for _, device := range []string{"shm", "tcp", "tls", "auto"} {
		t.Run(device, func(t *testing.T) {
			t.Parallel()
			b := bounds{Steady: 15 * time.Second, PeerTimeout: 4 * time.Second}
			r := conduct(t.Context(), plan{device: device, d: time.Second, seed: 7, calm: true, long: true, bounds: b}, io.Discard)
			var table strings.Builder
			show(&table, []row{r})
			t.Log("\n" + table.String())
			require.Empty(t, r.Wrongs)
			require.GreaterOrEqual(t, r.Returns, uint64(steadyPeers), "each steady peer has taken one back")
			require.NotZero(t, r.Messages)
		})
	}
}

// TestShort is the attack's short form, which has no time for pauses beyond PeerTimeout (see
// TestReturns): no steady peer fails, or waits for as long as if it hung; nothing is lost or
// left behind, and each foe has had its turn. A call is given up late, since the machine may do
// other things; the time in which it ran the processes is held to what is promised.
func TestShort(t *testing.T) {
	loose := bounds{Steady: 15 * time.Second, PeerTimeout: 20 * time.Second}
	kinds := map[string][]string{
		"shm":    {"packets", "connids", "cell", "claim", "hint", "rdma", "file", "lock", "directory", "scribble"},
		"tcp":    {"silent", "half preamble", "garbage", "tls", "frame", "half frame", "keys", "packets", "connids", "no reader"},
		"tls":    {"silent", "half preamble", "garbage", "http", "tls"},
		"auto":   {"silent", "frame", "cell", "scribble"},
		"launch": {"silent", "version", "garbage", "half hello", "tls"},
	}
	for _, device := range []string{"shm", "tcp", "tls", "auto", "launch"} {
		t.Run(device, func(t *testing.T) {
			r := conduct(t.Context(), plan{device: device, d: 5 * time.Second, seed: 7, bounds: loose, want: kinds[device]}, io.Discard)
			var table strings.Builder
			show(&table, []row{r})
			t.Log("\n" + table.String())
			require.Empty(t, r.Wrongs)
			require.Less(t, r.Worst, promised.Steady, "without what the machine did meanwhile")
			require.NotZero(t, r.Ops)
			for _, k := range kinds[device] {
				require.NotZero(t, r.Kinds[k], "attacks of kind %q", k)
			}
			if device != "launch" {
				require.NotZero(t, r.Kills+r.Pauses)
				require.NotZero(t, r.Messages)
			}
		})
	}
}
