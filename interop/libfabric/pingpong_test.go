//go:build linux

package libfabric_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
)

// pingpongTime is how long all sizes may take.
const pingpongTime = 3 * time.Minute

// iterations of a size; sizes are those of fi_pingpong's -S all, and of datagrams what fits
// a packet.
const (
	iterations = 3
	toolSizes  = 46
	// packetSizes of them fit a packet: 0 to 8k.
	packetSizes = 27
)

var buildExample = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "pingpong")
	out, err := exec.Command("go", "build", "-o", path, "github.com/efactor/efactor/examples/pingpong").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// player is a program that plays ping-pong, as libfabric's tool or as our example.
type player struct {
	name    string
	command func(dir string, e environment, mode string, port int, server bool) []string
}

// toolOf is libfabric's tool with endpoints of a type.
func toolOf(endpoint string) func(string, environment, string, int, bool) []string {
	return func(dir string, e environment, mode string, port int, server bool) []string {
		found, _ := findTools()
		path, _ := found.install.Program("fi_pingpong")
		args := found.install.Command(path, "-p", "efa", "-e", endpoint, "-S", "all", "-c", "-I", strconv.Itoa(iterations))
		if !lf().before(since2) {
			args = append(args, fabricOf(mode)...) // its default is efa-direct
		}
		args = append(args, "-m", messagesOf(mode))
		if server {
			args = append(args, "-B", strconv.Itoa(port))
		} else {
			args = append(args, "-P", strconv.Itoa(port), "127.0.0.1")
		}
		return found.emulator.Command(e.on(dir), args...)
	}
}

var (
	tool     = player{"fi_pingpong", toolOf("rdm")}
	datagram = player{"fi_pingpong of datagrams", toolOf("dgram")}
	// ours and oursOnCard send datagrams, too.
	ours       = player{"efactor with datagrams", withDatagrams(&example)}
	oursOnCard = player{"efactor with datagrams on EFA", withDatagrams(&onCard)}
	example    = player{"efactor", func(dir string, _ environment, mode string, port int, server bool) []string {
		path, _ := buildExample()
		args := []string{path, "-device", "shm:" + dir, "-S", "tool", "-c", "-I", strconv.Itoa(iterations), "-m", messagesOf(mode)}
		args = append(args, fabricOf(mode)...)
		if server {
			return append(args, "-server", "-B", strconv.Itoa(port))
		}
		return append(args, "-P", strconv.Itoa(port), "127.0.0.1")
	}}
	// onCard is the example on the emulated EFA device that libfabric's tool has, too.
	onCard = player{"efactor on EFA", func(dir string, e environment, mode string, port int, server bool) []string {
		found, _ := findTools()
		args := example.command("", e, mode, port, server)
		args[2] = "efa" // -device
		return found.emulator.Command(e.on(dir), args...)
	}}
)

// withDatagrams is the command of one of our players for datagrams.
func withDatagrams(p *player) func(string, environment, string, int, bool) []string {
	return func(dir string, e environment, mode string, port int, server bool) []string {
		args := p.command(dir, e, mode, port, server)
		i := slices.Index(args, "-device")
		return slices.Insert(args, i, "-e", "dgram")
	}
}

// direct is the mode without the protocol.
const direct = "direct"

func fabricOf(mode string) []string {
	if mode == direct {
		return []string{"-f", "efa-direct"}
	}
	return []string{"-f", "efa"}
}

func messagesOf(mode string) string {
	if mode == direct {
		return "msg"
	}
	return mode
}

// needTool ends the test where libfabric's tool is missing.
func needTool(t *testing.T) {
	t.Helper()
	_, err := need(t).install.Program("fi_pingpong")
	if missing(err) {
		testenv.Missing(t, "%v", err)
	}
	require.NoError(t, err)
}

// TestDatagrams: fi_pingpong over datagrams, whose data begins behind the 40 bytes that verbs
// keep for a route header, with itself and with efactor on shared memory and on a card.
func TestDatagrams(t *testing.T) {
	needTool(t)
	_, err := buildExample()
	require.NoError(t, err)
	for _, c := range []struct{ server, client player }{{datagram, datagram}, {datagram, ours}, {ours, datagram}, {datagram, oursOnCard}, {oursOnCard, datagram}} {
		t.Run(c.server.name+" serves "+c.client.name, func(t *testing.T) {
			pingpong(t, environment{name: "no RDMA"}, "msg", c.server, c.client)
		})
	}
}

// sincePrefix is the release since which fi_pingpong sends the 176 bytes that it takes for the provider's
// prefix (FI_MSG_PREFIX) as data over efa, so that it fails with itself and waits for ever. It has no
// option against that; built without it, it plays all sizes with efactor in both roles.
var sincePrefix = release{2, 5, 0}

// TestPingpong: fi_pingpong with itself, and with examples/pingpong in either role.
func TestPingpong(t *testing.T) {
	needTool(t)
	if !lf().before(sincePrefix) {
		t.Skipf("fi_pingpong of libfabric %v sends its prefix as data: it fails with itself, without efactor", lf())
	}
	_, err := buildExample()
	require.NoError(t, err)
	for _, c := range []struct{ server, client player }{{tool, tool}, {tool, example}, {example, tool}, {tool, onCard}, {onCard, tool}, {onCard, onCard}} {
		for _, mode := range []string{"msg", "tagged"} {
			for _, e := range pingpongEnvironments(mode) {
				t.Run(fmt.Sprintf("%s serves %s, %s, %s", c.server.name, c.client.name, mode, e.title()), func(t *testing.T) {
					pingpong(t, e, mode, c.server, c.client)
				})
				if brief() {
					break
				}
			}
		}
	}
}

// pingpongEnvironments have libfabric's own thresholds: messages of 1 MiB and more are
// read, where the device can.
func pingpongEnvironments(mode string) []environment {
	all := []environment{{name: "RDMA read", rdma: true, env: []string{"FI_EFA_USE_DEVICE_RDMA=1"}}}
	if mode == "msg" {
		all = append(all, environment{name: "no RDMA"}.shuffled(9))
	}
	return all
}

func pingpong(t *testing.T, e environment, mode string, server, client player) {
	ctx, cancel := context.WithTimeout(context.Background(), pingpongTime)
	defer cancel()
	dir := fabric(t)
	defer func() { _ = os.RemoveAll(dir) }()
	port := freeport.Get(t)
	var outputs [2]bytes.Buffer
	start := func(out *bytes.Buffer, args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(append(os.Environ(), common...), e.env...)
		cmd.Stdout, cmd.Stderr = out, out
		require.NoError(t, cmd.Start())
		return cmd
	}
	s := start(&outputs[0], server.command(dir, e, mode, port, true))
	waitForListener(t, ctx, port)
	c := start(&outputs[1], client.command(dir, e, mode, port, false))
	errs := [2]error{}
	errs[1] = c.Wait()
	if errs[1] != nil {
		cancel() // the server may wait for ever
	}
	errs[0] = s.Wait()
	for i, who := range []player{server, client} {
		require.NoError(t, errs[i], "%s:\n%s\n%s", who.name, &outputs[0], &outputs[1])
		rows := 0
		for l := range strings.Lines(outputs[i].String()) {
			f := strings.Fields(l)
			if len(f) >= 8 && f[1] == strconv.Itoa(iterations) && f[2] == "="+f[1] {
				rows++
			}
		}
		want := toolSizes
		if mode == direct || strings.Contains(server.name, "datagram") {
			want = packetSizes
		}
		require.Equal(t, want, rows, "sizes in the table of %s:\n%s", who.name, &outputs[i])
	}
}

// waitForListener looks into the kernel's tables: to connect would be to play.
func waitForListener(t *testing.T, ctx context.Context, port int) {
	t.Helper()
	local, listening := fmt.Sprintf(":%04X", port), "0A"
	for ctx.Err() == nil {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, _ := os.ReadFile(file)
			for l := range strings.Lines(string(table)) {
				f := strings.Fields(l)
				if len(f) > 3 && strings.HasSuffix(f[1], local) && f[3] == listening {
					return
				}
			}
		}
		runtime.Gosched()
	}
	require.NoError(t, ctx.Err(), "nobody listens on port %d", port)
}
