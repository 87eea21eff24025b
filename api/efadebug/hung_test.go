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
	b := openBrowser(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	ep, av, err := openShm(dir)
	require.NoError(t, err)
	defer ep.Close()

	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	addr, err := efa.ParseAddress(lines.Text())
	require.NoError(t, err)
	to, err := av.Insert(addr)
	require.NoError(t, err)

	page := efadebug.New()
	page.Add("sender", ep)
	srv := httptest.NewServer(page)
	defer srv.Close()
	_, err = ep.Post(&efa.SendReq{To: to, Buf: make([]byte, hungBytes)})
	require.NoError(t, err)
	require.Eventually(t, func() bool { // in the middle
		s, err := ep.Snapshot(t.Context())
		require.NoError(t, err)
		return len(s.Operations) == 1 && s.Operations[0].Done > 0
	}, 90*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))

	b.open(srv.URL)
	var cells []string
	b.eventually("a mark", func() bool {
		b.run(`Array.from(document.querySelectorAll("tr.old td"), c => c.textContent)`, &cells)
		return len(cells) > 0
	})
	require.Equal(t, "send", cells[0])
	require.Equal(t, "CTS", cells[1])
	require.Regexp(t, `^[0-9.]+ s$`, cells[2])
	require.Contains(t, addr.String(), strings.TrimPrefix(cells[4], "fi_addr_efa"))
	require.Equal(t, "LONGCTS", strings.ToUpper(strings.ReplaceAll(cells[5], "-", "")))

	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	require.True(t, lines.Scan())
	require.Equal(t, fmt.Sprint(hungBytes), lines.Text(), "and then it goes on")
	require.NoError(t, cmd.Wait())
}
