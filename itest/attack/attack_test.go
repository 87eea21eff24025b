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

// TestShort is the attack's short form: no steady peer waits for longer than two seconds or
// fails, nothing is lost or left behind, a peer that was stopped until all others had failed
// it is taken back, and each foe has had its turn.
func TestShort(t *testing.T) {
	for _, device := range []string{"shm", "tcp", "tls", "auto", "launch"} {
		t.Run(device, func(t *testing.T) {
			r := conduct(t.Context(), plan{device: device, d: 5 * time.Second, seed: 7, long: true}, io.Discard)
			var table strings.Builder
			show(&table, []row{r})
			t.Log("\n" + table.String())
			require.Empty(t, r.wrongs)
			require.Less(t, r.worst, steadyBound)
			require.NotZero(t, r.ops)
			kinds := map[string][]string{
				"shm":    {"packets", "connids", "cell", "claim", "hint", "rdma", "file", "lock", "directory", "scribble"},
				"tcp":    {"silent", "half preamble", "garbage", "tls", "frame", "half frame", "keys", "packets", "connids", "no reader"},
				"tls":    {"silent", "half preamble", "garbage", "http", "tls"},
				"auto":   {"silent", "frame", "cell", "scribble"},
				"launch": {"silent", "version", "garbage", "half hello", "tls"},
			}
			for _, k := range kinds[device] {
				require.NotZero(t, r.kinds[k], "attacks of kind %q", k)
			}
			if device != "launch" {
				require.NotZero(t, r.kills+r.pauses)
				require.NotZero(t, r.messages)
				require.GreaterOrEqual(t, r.returns, uint64(steadyPeers), "each steady peer has taken one back")
			}
		})
	}
}
