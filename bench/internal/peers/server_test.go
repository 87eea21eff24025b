package peers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/versus"
)

// asTool has the test binary be a tool: its arguments are what it is, a port and a file, to
// which each client adds a byte.
const asTool = "EFACTOR_BENCH_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		if err := play(os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(role, port, file string) error {
	switch role {
	case "server":
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		_, err = l.Accept()
		return err
	case "client":
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the test's
		if err != nil {
			return err
		}
		if _, err := f.WriteString("x"); err != nil {
			return err
		}
		_, err = net.Dial("tcp", "127.0.0.1:"+port)
		fmt.Println("a figure")
		return err
	}
	return fmt.Errorf("%s: not today", role)
}

func newTool(t *testing.T, server string) (x tool, clients string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	clients = filepath.Join(t.TempDir(), "clients")
	role := func(name string) func(string) []string {
		return func(port string) []string { return []string{name, port, clients} }
	}
	return tool{name: self, env: []string{asTool + "=1"}, server: role(server), client: role("client")}, clients
}

// TestTool: one client is started, when the server listens.
func TestTool(t *testing.T) {
	x, clients := newTool(t, "server")
	out, err := x.run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "a figure\n", out)
	text, err := os.ReadFile(clients)
	require.NoError(t, err)
	if _, known := versus.Listening(1); known {
		assert.Equal(t, "x", string(text))
	}
}

// TestToolEnds: a server that ends is an error that has what it wrote.
func TestToolEnds(t *testing.T) {
	x, _ := newTool(t, "sick")
	_, err := x.run(t.Context())
	require.ErrorIs(t, err, errEarly)
	assert.ErrorContains(t, err, "sick: not today")
}
