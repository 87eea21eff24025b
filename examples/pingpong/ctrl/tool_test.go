package ctrl

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
)

// Tests against libfabric's own fi_pingpong. Its provider is shm, which is always
// available and which we do not speak, so they go as far as the control protocol
// does: until data would flow, or, with no iterations, through every size.

// tool starts fi_pingpong -v and returns the lines of its debug output. It is
// ended with the test.
func tool(t *testing.T, args ...string) <-chan string {
	testenv.NeedAll(t, "fi_pingpong") // the recorded conversations are tested all the same
	path, err := exec.LookPath("fi_pingpong")
	if err != nil {
		testenv.Missing(t, "fi_pingpong is not installed (Debian: libfabric-bin)")
	}
	ctx, end := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append([]string{"-v", "-p", "shm", "-e", "rdm"}, args...)...)
	cmd.Env = append(cmd.Environ(), "FI_PROVIDER=shm")                       // spares it looking for hardware
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it removes its files then
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := make(chan string)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { end(); <-read; _ = cmd.Wait() })
	return lines
}

// await reads the tool's output up to a line with text, and returns it.
func await(t *testing.T, lines <-chan string, text string) string {
	for line := range lines {
		if strings.Contains(line, text) {
			return line
		}
	}
	require.FailNow(t, "the tool ended early", "without %q", text)
	return ""
}

// nobody is the name of an endpoint that does not exist, in the form that the shm
// provider accepts.
var nobody = Name{Format: FormatString, Addr: []byte("fi_shm://1:0:0\x00")}

// toolServer starts the tool as server and connects to it.
func toolServer(t *testing.T, args ...string) (*Conn, <-chan string) {
	port := freeport.Get(t)
	out := tool(t, append([]string{"-B", strconv.Itoa(port)}, args...)...)
	await(t, out, "SERVER: waiting for connection")
	c, err := Dial(within(t), AnyIP, "127.0.0.1", port, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, out
}

// toolClient starts the tool as client of a server of ours.
func toolClient(t *testing.T, args ...string) (*Conn, <-chan string) {
	l, err := Listen(within(t), AnyIP, "127.0.0.1", 0)
	require.NoError(t, err)
	out := tool(t, append(append([]string{"-P", strconv.Itoa(l.Port())}, args...), "127.0.0.1")...)
	c, err := l.Accept(within(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c, out
}

func TestToolIsServer(t *testing.T) {
	c, out := toolServer(t, "-S", "8", "-I", "3", "-c")
	n, err := c.Exchange(within(t), nobody)
	require.NoError(t, err)
	require.Equal(t, FormatString, n.Format)
	require.Regexp(t, "^fi_shm://[0-9]+(:[0-9]+:[0-9]+)?\x00$", string(n.Addr))
	_, err = n.Raw()
	require.ErrorContains(t, err, "start it with -p efa -e rdm")
	require.NoError(t, c.Sync(within(t)))
	await(t, out, "SERVER: synced")
	await(t, out, "Starting test chrono") // and waits for a message now
}

func TestToolIsClient(t *testing.T) {
	c, out := toolClient(t, "-S", "8", "-I", "3", "-c")
	n, err := c.Exchange(within(t), nobody)
	require.NoError(t, err)
	require.Equal(t, FormatString, n.Format)
	require.NoError(t, c.Sync(within(t)))
	await(t, out, "CLIENT: synced")
	// The tool prints the contents of the first message: the letters from the
	// alphabet's beginning.
	for i := range 8 {
		require.True(t, strings.HasSuffix(await(t, out, "msg_index="), fmt.Sprintf("index=%d msg_index=%d", i, i)))
	}
}

// TestToolWithoutMessages goes through all the sizes of the tool, 0 messages each.
func TestToolWithoutMessages(t *testing.T) {
	const sizes = 46 // 0 to 6 MiB
	for name, start := range map[string]func(*testing.T, ...string) (*Conn, <-chan string){
		"server": toolServer, "client": toolClient,
	} {
		t.Run(name, func(t *testing.T) {
			c, out := start(t, "-S", "all", "-I", "0")
			_, err := c.Exchange(within(t), nobody)
			require.NoError(t, err)
			ended := make(chan struct{})
			go func() { // so that its output does not hold it up
				defer close(ended)
				for line := range out {
					if strings.Contains(line, "Terminating test") { // it says fin on the fabric now
						return
					}
				}
				t.Error("the tool ended early")
			}()
			for range sizes {
				require.NoError(t, c.Sync(within(t)))
				w := c.Watch(within(t))
				w.Stop()
				n, err := c.Count(within(t), 0)
				require.NoError(t, err)
				require.Zero(t, n)
			}
			<-ended
		})
	}
}
