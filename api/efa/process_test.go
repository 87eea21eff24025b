package efa_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
)

// childEnv makes the test binary behave as the other process: where the two meet, as
// meet has it.
const childEnv = "EFACTOR_TEST_CHILD_DIR"

// directEnv makes the other process's endpoint do without the protocol.
const directEnv = "EFACTOR_TEST_CHILD_DIRECT"

// pauseEnv makes it pausedRole, the one that is stopped, which is set where processes can be.
const pauseEnv = "EFACTOR_TEST_PAUSED"

var pausedRole func(dir string) error

func init() {
	if dir := os.Getenv(childEnv); dir != "" {
		run := child
		if os.Getenv(exchangeEnv) != "" {
			run = exchangeChild
		} else if os.Getenv(pauseEnv) != "" {
			run = pausedRole
		}
		if os.Getenv(stoppedEnv) != "" {
			run = stoppedChild
		}
		if os.Getenv(rightsEnv) != "" {
			run = rightsChild
		}
		if os.Getenv(closedEnv) != "" {
			run = closedChild
		}
		if err := run(dir); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// childOf opens an endpoint in the directory where the parent has one, and the two
// tell each other their addresses.
func childOf(dir string, dc efa.DomainConfig) (ep *efa.Endpoint, parent efa.Addr, err error) {
	dev, err := meet(dir)
	if err != nil {
		return nil, 0, err
	}
	fab, err := efa.Open(efa.Config{Device: dev})
	if err != nil {
		return nil, 0, err
	}
	dom, err := fab.OpenDomain(dc)
	if err != nil {
		return nil, 0, err
	}
	av := dom.NewAddressVector()
	cfg := efa.EndpointConfig{AV: av, Direct: os.Getenv(directEnv) != ""}
	if strings.HasPrefix(dir, "/") {
		cfg.QPN = 77 // as a port it may be taken
	}
	if ep, err = dom.NewEndpoint(cfg); err != nil {
		return nil, 0, err
	}
	if err := ep.Enable(context.Background()); err != nil {
		return nil, 0, err
	}
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return nil, 0, err
	}
	a, err := efa.ParseAddress(strings.TrimSpace(line))
	if err != nil {
		return nil, 0, err
	}
	if parent, err = av.Insert(a); err != nil {
		return nil, 0, err
	}
	fmt.Println(ep.Address())
	return ep, parent, nil
}

// child echoes what it is sent and floods the parent with large messages besides,
// until it is killed or told to end by an empty message.
func child(dir string) error {
	ctx := context.Background()
	ep, parent, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	go func() {
		for big := make([]byte, 300000); ; {
			if ep.SendTag(ctx, parent, 1, big) != nil {
				return
			}
		}
	}()
	buf := make([]byte, 1<<20)
	for {
		m, err := ep.Recv(ctx, buf)
		if err != nil {
			return err
		}
		if m.N == 0 {
			return nil
		}
		if err := ep.Send(ctx, parent, buf[:m.N]); err != nil {
			return err
		}
	}
}

// meet opens the device that a place stands for: a directory, "files:" or "both:" and a
// directory, or "tcp".
func meet(place string) (efa.Device, error) {
	if dir, files := strings.CutPrefix(place, "files:"); files {
		return shm.Open(shm.Config{Dir: dir, Files: true})
	}
	dir, both := strings.CutPrefix(place, "both:")
	if place == "tcp" {
		return efa.OpenDevice("tcp")
	}
	near, err := shm.Open(shm.Config{Dir: dir})
	if err != nil || !both {
		return near, err
	}
	far, err := tcp.Open(tcp.Config{Timeout: time.Minute}) // it is not silence that tells of a death
	if err != nil {
		return nil, err
	}
	return efa.JoinDevices(near, far)
}

// startChild runs the other process and exchanges addresses with it.
func startChild(t testing.TB, dir string, own efa.Address, env ...string) (*exec.Cmd, efa.Address) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+dir), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(in, own.String()+"\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	a, err := efa.ParseAddress(strings.TrimSpace(line))
	require.NoError(t, err)
	return cmd, a
}

// TestKilledPeer: a process that is killed in the middle of traffic leaves its
// partner with errors, not with a hang, and a restarted one at the same queue
// pair number can talk to it.
func TestKilledPeer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	type meeting struct {
		name, mine, theirs string
		mode               efa.Progress
	}
	list := []meeting{{"near", "both:", "both:", efa.ProgressAuto}, {"far", "both:", "tcp", efa.ProgressAuto}}
	for _, mode := range modes {
		list = append(list, meeting{mode.String(), "", "", mode})
	}
	for _, c := range some(t, list) {
		t.Run(c.name, func(t *testing.T) {
			mode := c.mode
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, 0o700))
			dev, err := meet(c.mine + dir)
			require.NoError(t, err)
			if dir = c.theirs + dir; c.theirs == "tcp" {
				dir = c.theirs
			}
			t.Cleanup(func() { require.NoError(t, dev.Close()) })
			me := newEndpoint(t, domainOn(t, dev, efa.DomainConfig{Progress: mode}),
				efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: time.Minute}})
			for round := range less(3) {
				cmd, addr := startChild(t, dir, me.ep.Address())
				peer, err := me.av.Insert(addr)
				require.NoError(t, err)
				echo(t, me, peer, 100)
				echo(t, me, peer, 200000)

				// Traffic of all kinds in progress, then the end.
				ctx := testContext(t)
				errs := make(chan error, 64)
				n := 0
				start := func(f func() error) {
					n++
					go func() {
						for {
							if err := f(); err != nil {
								errs <- err
								return
							}
						}
					}()
				}
				start(func() error { return me.ep.Send(ctx, peer, make([]byte, 100)) })
				start(func() error { return me.ep.Send(ctx, peer, make([]byte, 500000)) })
				start(func() error {
					_, err := me.ep.Recv(ctx, make([]byte, 1<<20), efa.From(peer))
					return err
				})
				start(func() error {
					_, err := me.ep.RecvTag(ctx, efa.Match{Tag: 1}, make([]byte, 1<<20), efa.From(peer))
					return err
				})
				_, err = me.ep.RecvTag(ctx, efa.Match{Tag: 1}, make([]byte, 1<<20), efa.From(peer))
				require.NoError(t, err)
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait() // it was killed

				bound, cancel := context.WithTimeout(context.Background(), 30*time.Second) // PeerTimeout is not what ends them
				for range n {
					select {
					case err := <-errs:
						require.ErrorIs(t, err, efa.ErrPeerFailed, "round %d", round)
					case <-bound.Done():
						buf := make([]byte, 1<<20)
						t.Fatalf("round %d: an operation hangs\n%s", round, buf[:runtime.Stack(buf, true)])
					}
				}
				cancel()
				require.NoError(t, me.av.Remove(testContext(t), peer))
			}
		})
	}
}

// echo sends a message and expects it back.
func echo(t *testing.T, me *side, peer efa.Addr, size int) {
	t.Helper()
	ctx := testContext(t)
	p := pattern(size)
	done := make(chan error, 1)
	go func() { done <- me.ep.Send(ctx, peer, p) }()
	q := make([]byte, size)
	m, err := me.ep.Recv(ctx, q, efa.From(peer))
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Equal(t, size, m.N)
	require.Equal(t, p, q)
}

// TestOtherProcess: two processes exchange messages, and one that ends in good
// order is seen to be gone.
func TestOtherProcess(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	dev, err := shm.Open(shm.Config{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	me := open(t, dev, efa.DomainConfig{})
	cmd, addr := startChild(t, dir, me.ep.Address())
	peer, err := me.av.Insert(addr)
	require.NoError(t, err)
	for _, n := range []int{1, 8000, 60000, 1 << 20} {
		echo(t, me, peer, n)
	}
	require.NoError(t, me.ep.Send(testContext(t), peer, nil))
	require.NoError(t, cmd.Wait())
	ev, err := me.ep.NextEvent(testContext(t))
	require.NoError(t, err)
	if ev.Kind == efa.NewPeer { // it sent before its address was inserted
		ev, err = me.ep.NextEvent(testContext(t))
		require.NoError(t, err)
	}
	require.Equal(t, efa.PeerFailed, ev.Kind)
	require.Equal(t, peer, ev.Peer)
	require.True(t, errors.Is(ev.Err, efa.ErrPeerFailed))
}
