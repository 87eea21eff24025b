package efa_test

import (
	"bufio"
	"bytes"
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
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// childEnv makes the test binary behave as the other process: where the two meet, as
// meet has it.
const childEnv = "EFACTOR_TEST_CHILD_DIR"

// directEnv makes the other process's endpoint do without the protocol.
const directEnv = "EFACTOR_TEST_CHILD_DIRECT"

// pauseEnv makes it pausedRole, the one that is stopped, which is set where processes can be.
const pauseEnv = "EFACTOR_TEST_PAUSED"

var pausedRole func(dir string) error

// idleEnv makes it idleRole, which is set where what a process does can be counted.
const idleEnv = "EFACTOR_TEST_IDLE"

var idleRole func(dir string) error

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
		if os.Getenv(idleEnv) != "" {
			run = idleRole
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
				efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: 5 * testenv.Hang}})
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

				bound, cancel := context.WithTimeout(context.Background(), testenv.Hang) // PeerTimeout is not what ends them
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

// stoppedEnv makes the child one that is stopped, see stoppedChild.
const stoppedEnv = "EFACTOR_TEST_CHILD_STOPPED"

// stoppedChild offers memory and receives what it is sent.
func stoppedChild(dir string) error {
	ctx := context.Background()
	ep, parent, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	m, err := ep.Domain().Alloc(4096, efa.AccessRemoteWrite|efa.AccessRemoteRead)
	if err != nil {
		return err
	}
	b, err := m.Remote().MarshalBinary()
	if err != nil {
		return err
	}
	if err := ep.Send(ctx, parent, b); err != nil {
		return err
	}
	for {
		if _, err := ep.Recv(ctx, make([]byte, 1<<20)); err != nil {
			return err
		}
	}
}

// TestStoppedPeer: what is in progress with a process that is stopped ends when it was silent
// for PeerTimeout, although over shm the application goes on with one-sided operations in its
// memory, which our own device carries out.
func TestStoppedPeer(t *testing.T) {
	testenv.Long(t, "a peer stands still for real seconds")
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	for _, place := range []string{"shm", "tcp"} {
		t.Run(place, func(t *testing.T) {
			dir := "tcp"
			if place == "shm" {
				dir = t.TempDir()
				require.NoError(t, os.Chmod(dir, 0o700))
			}
			const timeout = 2 * time.Second
			dom := domainOn(t, meetAt(t, dir), efa.DomainConfig{})
			me := newEndpoint(t, dom, efa.EndpointConfig{
				Protocol: efa.ProtocolConfig{PeerTimeout: timeout, ProbeAfter: timeout / 8},
			})
			cmd, addr := startChild(t, dir, me.ep.Address(), stoppedEnv+"=1")
			defer func() {
				_ = cmd.Process.Kill() // it may have ended
				_ = cmd.Wait()         // it was killed
			}()
			peer, err := me.av.Insert(addr)
			require.NoError(t, err)
			ctx := testContext(t)
			b := make([]byte, efa.MaxRemote)
			got, err := me.ep.Recv(ctx, b)
			require.NoError(t, err)
			var r efa.Remote
			require.NoError(t, r.UnmarshalBinary(b[:got.N]))
			require.NoError(t, me.ep.Send(ctx, peer, make([]byte, 100)))

			stopProcess(t, cmd.Process)
			began := clock.System.Now()
			ended := make(chan error, 4)
			waits := func(what string, f func() error) {
				go func() {
					if err := f(); !isAny(err, efa.ErrPeerFailed, efa.ErrTimedOut) {
						ended <- fmt.Errorf("%s: %w", what, err)
						return
					}
					ended <- nil
				}()
			}
			waits("long message", func() error { return me.ep.Send(ctx, peer, make([]byte, 1<<20)) })
			waits("directed receive", func() error { return second(me.ep.Recv(ctx, b, efa.From(peer))) })
			waits("fetch-add", func() error { return second(efa.NewCell[int64](me.ep.Memory(peer, r)).FetchAdd(ctx, 1)) })
			most := 3
			if place == "shm" { // tcp gives the buffer of a read back when it gives the connection up
				most++
				waits("one-sided operations", func() error { // until the peer has failed
					mem, p := me.ep.Memory(peer, r), make([]byte, 64)
					for {
						if err := mem.Write(ctx, p); err != nil {
							return err
						}
						if err := mem.Read(ctx, p); err != nil {
							return err
						}
					}
				})
			}
			for range most {
				require.NoError(t, <-ended)
			}
			require.Less(t, clock.System.Now().Sub(began), testenv.Hang)
		})
	}
}

// TestSlowPeer: a process that runs and makes no progress with its endpoint is slow, not dead.
func TestSlowPeer(t *testing.T) {
	testenv.Long(t, "a peer stands still for real seconds")
	a, b := lab{shm: true, mode: efa.ProgressManual, ep: efa.EndpointConfig{
		Protocol: efa.ProtocolConfig{PeerTimeout: time.Second, ProbeAfter: 100 * time.Millisecond},
	}}.open(t)
	ctx := testContext(t)
	first := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, 10)})
	done(t, first)
	long := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, 1<<20)})
	bound, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err := long.Wait(bound) // three times PeerTimeout, in which b does nothing
	require.ErrorIs(t, err, context.DeadlineExceeded)
	for _, n := range []int{10, 1 << 20} {
		m, err := b.ep.Recv(ctx, make([]byte, 1<<20))
		require.NoError(t, err)
		require.Equal(t, n, m.N)
	}
	done(t, long)
}

const (
	// rightsEnv makes the child the owner of memory, see rightsChild.
	rightsEnv = "EFACTOR_TEST_CHILD_RIGHTS"

	rightsBytes = 20_000
	rightsLong  = 2 << 20
)

// rightsChild has memory of every Access, allocated and registered, and tells the parent its
// keys. Then it sends a long message from memory that is for messages alone, and looks at
// the end whether anything has changed that must not.
func rightsChild(dir string) error {
	ctx := context.Background()
	ep, parent, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	dom := ep.Domain()
	var all []*efa.MemoryRegion
	for access := range efa.Access(16) {
		for _, get := range []func() (*efa.MemoryRegion, error){
			func() (*efa.MemoryRegion, error) { return dom.Alloc(rightsBytes, access) },
			func() (*efa.MemoryRegion, error) { return dom.Register(make([]byte, rightsBytes), access) },
		} {
			m, err := get()
			if err != nil {
				return err
			}
			copy(m.Bytes(), pattern(rightsBytes))
			all = append(all, m)
			b, err := m.Remote().MarshalBinary()
			if err != nil {
				return err
			}
			if err := ep.Send(ctx, parent, b); err != nil {
				return err
			}
		}
	}
	long, err := dom.Alloc(2*rightsLong, 0)
	if err != nil {
		return err
	}
	copy(long.Bytes(), pattern(2*rightsLong))
	if err := ep.Send(ctx, parent, long.Bytes()[rightsLong:]); err != nil {
		return err
	}
	if _, err := ep.Recv(ctx, nil); err != nil {
		return err
	}
	for i, m := range all {
		if access := efa.Access(i / 2); access&efa.AccessRemoteWrite == 0 && !bytes.Equal(m.Bytes(), pattern(rightsBytes)) {
			return fmt.Errorf("memory of access %d was changed", access)
		}
	}
	return ep.Close()
}

// TestRightsOfProcess: another process that has the key of memory does to it what its Access
// allows, and nothing else, with the key as it was given and with the device's number alone.
func TestRightsOfProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	for _, place := range []string{"shm", "tcp"} {
		t.Run(place, func(t *testing.T) {
			dir := "tcp"
			if place == "shm" {
				dir = t.TempDir()
				require.NoError(t, os.Chmod(dir, 0o700))
			}
			me := open(t, meetAt(t, dir), efa.DomainConfig{})
			cmd, addr := startChild(t, dir, me.ep.Address(), rightsEnv+"=1")
			peer, err := me.av.Insert(addr)
			require.NoError(t, err)
			ctx := testContext(t)
			b := make([]byte, efa.MaxRemote)
			for i := range 32 {
				n, err := me.ep.Recv(ctx, b)
				require.NoError(t, err)
				var r efa.Remote
				require.NoError(t, r.UnmarshalBinary(b[:n.N]))
				// Each with an endpoint of its own, since too many refusals are an attack.
				s := newEndpoint(t, me.dom, efa.EndpointConfig{})
				to, err := s.av.Insert(addr)
				require.NoError(t, err)
				reachInto(t, s, to, r, efa.Access(i/2))
			}
			whole := alloc(t, me, rightsLong, 0)
			m, err := me.ep.Recv(ctx, whole.Bytes())
			require.NoError(t, err)
			require.Equal(t, rightsLong, m.N)
			require.True(t, bytes.Equal(pattern(2 * rightsLong)[rightsLong:], whole.Bytes()))
			require.NoError(t, me.ep.Send(ctx, peer, nil))
			require.NoError(t, cmd.Wait())
		})
	}
}

// reachInto tries what a peer can with memory of an Access, whose bytes are known.
func reachInto(t *testing.T, s *side, to efa.Addr, r efa.Remote, access efa.Access) {
	t.Helper()
	ctx := testContext(t)
	addr, key := r.Raw()
	bare := efa.RawRemote(addr, r.Len(), key&^(3<<62))
	read, write := access&efa.AccessRemoteRead != 0, access&efa.AccessRemoteWrite != 0
	got := make([]byte, rightsBytes)
	err := s.ep.Memory(to, r).Read(ctx, got)
	if read {
		require.NoError(t, err)
		require.Equal(t, pattern(rightsBytes), got)
	} else {
		require.ErrorIs(t, err, efa.ErrAccess, "read of access %d", access)
		require.ErrorIs(t, s.ep.Memory(to, bare).Read(ctx, got), efa.ErrAccess, "read of access %d by the device", access)
		require.Equal(t, make([]byte, rightsBytes), got)
	}
	if !write {
		require.ErrorIs(t, s.ep.Memory(to, r).Write(ctx, got, efa.Complete(efa.Delivered)), efa.ErrAccess, "write of access %d", access)
		require.ErrorIs(t, s.ep.Memory(to, bare).Write(ctx, got, efa.Complete(efa.Delivered)), efa.ErrAccess, "write of access %d by the device", access)
	}
	if !read || !write {
		require.ErrorIs(t, second(efa.NewCell[int64](s.ep.Memory(to, r)).FetchAdd(ctx, 1)), efa.ErrAccess, "fetch-add of access %d", access)
		require.ErrorIs(t, second(efa.NewCell[int64](s.ep.Memory(to, r)).CompareSwap(ctx, 0, 1)), efa.ErrAccess, "compare-and-swap of access %d", access)
	}
}
