//go:build linux

package rdmacore

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// tool is a program of ibverbs-utils.
func tool(t *testing.T, name string) string {
	t.Helper()
	ready(t)
	path, err := exec.LookPath(name)
	if err != nil {
		testenv.Missing(t, "no %s: install ibverbs-utils", name)
	}
	return path
}

func TestDevices(t *testing.T) {
	t.Parallel()
	assert.Contains(t, start(t, launch{tool: tool(t, "ibv_devices")}).good(t), "efa_0")
	assert.Contains(t, start(t, launch{tool: tool(t, "ibv_devinfo"), args: []string{"-v"}}).good(t), "PORT_ACTIVE")
}

// listens waits until there is a listener at a port: the client tries once.
func listens(t *testing.T, port int) {
	t.Helper()
	listener := regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X [0-9A-F]+:0000 0A `, port))
	for end := clock.System.Now().Add(patience); ; _, _ = unix.Poll(nil, 1) {
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			if text, err := os.ReadFile(table); err == nil && listener.Match(text) {
				return
			}
		}
		require.Less(t, clock.System.Now(), end, "nobody listens at port %d", port)
	}
}

// rdma-core's own example of datagrams, polling and with completion events.
func TestPingPong(t *testing.T) {
	path := tool(t, "ibv_ud_pingpong")
	for name, how := range map[string][]string{"poll": nil, "events": {"-e"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fabric, port := newFabric(t), freeport.Get(t)
			args := append([]string{"-d", "efa_0", "-g", "0", "-n", "200", "-p", strconv.Itoa(port)}, how...)
			server := start(t, launch{tool: path, fabric: fabric, host: "a", args: args})
			listens(t, port)
			client := start(t, launch{tool: path, fabric: fabric, host: "b", args: append(args, "127.0.0.1")})
			for _, s := range []*session{client, server} {
				s.well(t)
				assert.Contains(t, s.out.String(), "200 iters")
			}
			assertEmpty(t, fabric)
		})
	}
}
