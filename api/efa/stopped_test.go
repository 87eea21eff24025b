package efa_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

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
			require.Less(t, clock.System.Now().Sub(began), 30*time.Second)
		})
	}
}

// TestSlowPeer: a process that runs and makes no progress with its endpoint is slow, not dead.
func TestSlowPeer(t *testing.T) {
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
