//go:build linux

package libfabric_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
)

// sinceDirect is the first release with efa-direct.
var sinceDirect = release{2, 1, 0}

// needDirect ends a test that a libfabric without efa-direct has no part in.
func needDirect(t *testing.T) {
	t.Helper()
	need(t)
	if lf().before(sinceDirect) {
		t.Skip("this libfabric has no efa-direct")
	}
}

// TestPingpongDirect is TestPingpong without the protocol, of messages up to the MTU.
func TestPingpongDirect(t *testing.T) {
	needDirect(t)
	_, err := buildExample()
	require.NoError(t, err)
	for _, c := range []struct{ server, client player }{{tool, tool}, {tool, example}, {example, tool}, {tool, onCard}, {onCard, tool}, {onCard, onCard}} {
		for _, e := range pingpongEnvironments("msg") {
			t.Run(fmt.Sprintf("%s serves %s, %s", c.server.name, c.client.name, e.title()), func(t *testing.T) {
				pingpong(t, e, direct, c.server, c.client)
			})
		}
	}
}

// TestPingpongOther: without -f fi_pingpong of libfabric 2 takes efa-direct, and would wait
// for ever for a partner with the protocol, which says what is wrong.
func TestPingpongOther(t *testing.T) {
	needDirect(t)
	_, err := buildExample()
	require.NoError(t, err)
	for _, c := range []struct {
		name, serves, plays string // the example's mode, and the tool's
		example             int    // 0: it is the server
		says                string
	}{
		{"efactor with the protocol serves", "msg", direct, 0, "it may speak efa-direct"},
		{"efactor with the protocol is the client", direct, "msg", 1, "it may speak efa-direct"},
		{"efactor without the protocol serves", direct, "msg", 0, "both with -f efa-direct"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), pingpongTime)
			defer cancel()
			e, dir, port := pingpongEnvironments("msg")[0], fabric(t), freeport.Get(t)
			defer func() { _ = os.RemoveAll(dir) }()
			players := [2]player{example, tool}
			if c.example == 1 {
				players = [2]player{tool, example}
			}
			var cmds [2]*exec.Cmd
			var out [2]bytes.Buffer
			for i, mode := range []string{c.serves, c.plays} {
				args := players[i].command(dir, e, mode, port, i == 0)
				cmds[i] = exec.CommandContext(ctx, args[0], args[1:]...)
				cmds[i].Env = append(append(os.Environ(), common...), e.env...)
				cmds[i].Stdout, cmds[i].Stderr = &out[i], &out[i]
				require.NoError(t, cmds[i].Start())
				if i == 0 {
					waitForListener(t, ctx, port)
				}
			}
			require.Error(t, cmds[c.example].Wait())
			cancel()
			_ = cmds[1-c.example].Wait() // it was killed, or has failed by itself
			require.Contains(t, out[c.example].String(), c.says)
		})
	}
}
