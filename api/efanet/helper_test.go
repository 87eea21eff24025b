package efanet_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/runtime/clock"
)

// envServe has this binary serve as another process: "efanet" or "tcp" says on what. It prints its
// address, and gives back what it reads.
const envServe = "EFANET_TEST_SERVE"

// envRead has this binary read from a listener at that address.
const envRead = "EFANET_TEST_READ"

func TestMain(m *testing.M) {
	if addr := os.Getenv(envRead); addr != "" {
		if err := readFrom(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if on := os.Getenv(envServe); on != "" {
		if err := serve(on); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// serveConn serves one connection. The first 8 bytes are "json", for documents, or the size of its messages, which from
// 64 KiB on have a reply only if an "e" precedes the size.
func serveConn(c net.Conn) {
	defer c.Close()
	var first [8]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return
	}
	if string(first[:4]) == "json" {
		echoJSON(c)
		return
	}
	digits, echoes := strings.CutPrefix(string(first[:]), "e")
	size, err := strconv.Atoi(digits)
	if err != nil {
		return
	}
	p := make([]byte, size)
	for {
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		if echoes || size < 64<<10 {
			if _, err := c.Write(p); err != nil {
				return
			}
		}
	}
}

// document is a JSON request and its reply.
type document struct {
	ID   int    `json:"id"`
	Body string `json:"body"`
}

// echoJSON gives documents back.
func echoJSON(c net.Conn) {
	to, from := json.NewEncoder(c), json.NewDecoder(c)
	for {
		var d document
		if from.Decode(&d) != nil || to.Encode(d) != nil {
			return
		}
	}
}

func listenOn(on string) (net.Listener, error) {
	switch on {
	case "tcp":
		return net.Listen("tcp", "127.0.0.1:0")
	case "unix":
		return net.Listen("unix", "@efanet-test-"+rand.Text())
	}
	return efanet.Listen(context.Background(), "")
}

func serve(on string) error {
	l, err := listenOn(on)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
		os.Exit(0)
	}()
	return serveOn(l)
}

// serveOn serves the connections of a listener.
func serveOn(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go serveConn(c)
	}
}

// process starts another process that serves, and returns its address.
func process(tb testing.TB, on string) (string, *exec.Cmd) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envServe+"="+on)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it may have been killed
	})
	line := bufio.NewScanner(out)
	require.True(tb, line.Scan())
	return line.Text(), cmd
}

func soon(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

func listen(tb testing.TB, cfg efanet.ListenConfig) net.Listener {
	l, err := cfg.Listen(soon(tb), "")
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

type conn interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
}

// dial opens a connection to a listener and closes both sides at the end.
func dial(tb testing.TB, l net.Listener) (here, there conn) {
	c, err := efanet.Dial(soon(tb), l.Addr().String())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	a, err := l.Accept()
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = a.Close() })
	for _, x := range []net.Conn{c, a} { // so that a failure is no hang
		require.NoError(tb, x.SetDeadline(clock.Deadline(2*time.Minute)))
	}
	return c.(conn), a.(conn)
}

// endpoint opens a bare endpoint, for a side that does not keep to the protocol.
func endpoint(tb testing.TB) *efa.Endpoint {
	ep, err := efa.OpenEndpoint(soon(tb), efa.Setup{})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, ep.Close()) })
	return ep
}
