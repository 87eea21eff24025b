//go:build linux

package tcp

import (
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// secretVar makes the other process use TLS.
const secretVar = "EFACTOR_TCP_TEST_SECRET"

// TestFloodOfStrangers: while a process is flooded by more silent connections than it has
// descriptors, each peer that comes gets in, soon.
func TestFloodOfStrangers(t *testing.T) {
	skipPoller(t)
	for name, secret := range map[string]string{"plain": "", "TLS": string(tlsSecret)} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", "ulimit -n 200; exec "+os.Args[0])
			cmd.Env = append(os.Environ(), secretVar+"="+secret)
			_, at, _ := startEchoAs(t, cmd)
			made := flood(t, at)
			peers := 100
			if testing.Short() {
				peers = 20
			}
			for range peers {
				cfg := Config{Timeout: time.Minute}
				if secret != "" {
					cfg.Credentials = jobCreds(t, tlsSecret)
				}
				n := newNode(t, cfg, device.QPConfig{})
				begin := clock.System.Now()
				require.Equal(t, device.StatusOK, n.status(n.send(at, "hello")))
				require.Less(t, clock.System.Now().Sub(begin), 30*time.Second)
				require.NoError(t, n.q.Close())
			}
			require.Greater(t, made(), peers)
		})
	}
}

// TestDialedAgain: a connection that is closed before the reply costs no request, wherever it
// was by then.
func TestDialedAgain(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	id := n.send(h.at, "patience")
	f, p := h.accept()
	require.NoError(t, f.c.Close())
	c := h.bare()
	require.NoError(t, c.Close())
	again, _, q := h.take()
	require.Greater(t, q.session, p.session)
	fr := again.answer()
	require.Equal(t, "patience", string(again.want(fr.length)))
	again.frame(frame{kind: kindStatus, token: fr.token})
	require.Equal(t, device.StatusOK, n.status(id))
	require.Empty(t, n.gone)
}

// flood connects to a queue pair, without a word, until the test ends, and has 1000 of these
// connections open. The function ends it and returns how many there were.
func flood(t *testing.T, at address) (end func() int) {
	t.Helper()
	stop, made := make(chan struct{}), make(chan int, 1)
	go func() {
		var held []net.Conn
		n := 0
		defer func() {
			for _, c := range held {
				_ = c.Close()
			}
			made <- n
		}()
		for {
			select {
			case <-stop:
				return
			default:
			}
			c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: AddrOf(at.gid).AsSlice(), Port: int(at.qpn)})
			if err != nil {
				continue
			}
			n++
			if held = append(held, c); len(held) > 1000 {
				_ = held[0].Close()
				held = held[1:]
			}
		}
	}()
	end = sync.OnceValue(func() int { close(stop); return <-made })
	t.Cleanup(func() { end() })
	return end
}
