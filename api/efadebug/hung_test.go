//go:build unix

package efadebug_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efadebug"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// childEnv makes the test binary the receiver of one message, on the fabric of that
// directory.
const childEnv = "EFACTOR_DEBUG_CHILD_DIR"

const hungBytes = 256 << 20

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := receive(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func openShm(dir string) (*efa.Endpoint, *efa.AddressVector, error) {
	dev, err := shm.Open(shm.Config{Dir: dir})
	if err != nil {
		return nil, nil, err
	}
	fab, err := efa.Open(efa.Config{Device: dev})
	if err != nil {
		return nil, nil, err
	}
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	if err != nil {
		return nil, nil, err
	}
	av := dom.NewAddressVector()
	q, err := dom.NewQueue(16)
	if err != nil {
		return nil, nil, err
	}
	ep, err := dom.NewEndpoint(efa.EndpointConfig{
		AV: av, SendQueue: q, Protocol: efa.ProtocolConfig{PeerTimeout: time.Minute},
	})
	if err != nil {
		return nil, nil, err
	}
	return ep, av, ep.Enable(context.Background())
}

func receive(dir string) error {
	ep, _, err := openShm(dir)
	if err != nil {
		return err
	}
	fmt.Println(ep.Address())
	m, err := ep.Recv(context.Background(), make([]byte, hungBytes))
	fmt.Println(m.N)
	return err
}

// TestHungTransfer: the receiver is stopped in the middle of a message. The page says
// which operation hangs, with whom, on which packet, and for how long.
func TestHungTransfer(t *testing.T) {
	testenv.Long(t, "it waits for seconds")
	b := openBrowser(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	ep, av, err := openShm(dir)
	require.NoError(t, err)
	defer ep.Close()

	page := efadebug.New()
	page.Add("sender", ep)
	srv := httptest.NewServer(page)
	defer srv.Close()
	c := stopInTheMiddle(t, dir, ep, av)
	for try := 0; c == nil; try++ { // a busy machine may look too late
		require.Less(t, try, 20)
		c = stopInTheMiddle(t, dir, ep, av)
	}

	b.open(srv.URL)
	var cells []string
	b.eventually("a mark", func() bool {
		b.run(`Array.from(document.querySelectorAll("tr.old td"), c => c.textContent)`, &cells)
		return len(cells) > 0
	})
	require.Equal(t, "send", cells[0])
	require.Equal(t, "CTS", cells[1])
	require.Regexp(t, `^[0-9.]+ s$`, cells[2])
	require.Contains(t, c.addr.String(), cells[4])
	require.Equal(t, "LONGCTS", strings.ToUpper(strings.ReplaceAll(cells[5], "-", "")))

	c.goesOn(t)
}

// stopped is the receiver of a message, a process that is stopped.
type stopped struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	addr  efa.Address
}

// stopInTheMiddle sends a message and stops its receiver before it has all; nil if it had.
func stopInTheMiddle(t *testing.T, dir string, ep *efa.Endpoint, av *efa.AddressVector) *stopped {
	t.Helper()
	c := &stopped{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.cmd.Stderr = os.Stderr
	require.NoError(t, c.cmd.Start())
	c.lines = bufio.NewScanner(out)
	require.True(t, c.lines.Scan())
	c.addr, err = efa.ParseAddress(c.lines.Text())
	require.NoError(t, err)
	to, err := av.Insert(c.addr)
	require.NoError(t, err)
	op, err := ep.Start(&efa.SendReq{To: to, Buf: make([]byte, hungBytes)})
	require.NoError(t, err)
	begun := func() bool {
		s, err := ep.Snapshot(t.Context())
		require.NoError(t, err)
		return len(s.Operations) == 1 && s.Operations[0].Done > 0
	}
	ended := func() bool {
		select {
		case <-op.Done():
			return true
		default:
			return false
		}
	}
	require.Eventually(t, func() bool { return begun() || ended() }, 90*time.Second, time.Millisecond)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGSTOP))
	for before := ^uint64(0); ; { // what was under way arrives
		s, err := ep.Snapshot(t.Context())
		require.NoError(t, err)
		if len(s.Operations) == 0 {
			c.goesOn(t)
			return nil
		}
		now := s.Operations[0].Done
		if now == before {
			return c
		}
		before = now
		<-clock.NewTimer(50 * time.Millisecond).C
	}
}

// goesOn lets the receiver end.
func (c *stopped) goesOn(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGCONT))
	require.True(t, c.lines.Scan())
	require.Equal(t, fmt.Sprint(hungBytes), c.lines.Text(), "and then it goes on")
	require.NoError(t, c.cmd.Wait())
}
