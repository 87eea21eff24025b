package efa_test

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestDirectReadOfStopped: a device that reads by itself needs nobody at the other side: memory of
// a process that is stopped is written and read as long as the peer counts as alive.
func TestDirectReadOfStopped(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	dom := domainOn(t, meetAt(t, dir), efa.DomainConfig{})
	me := newEndpoint(t, dom, efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinReadWrite: 1}})
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
	p := make([]byte, r.Len())
	stamp(p, 1<<40)
	require.NoError(t, me.ep.Memory(peer, r).Write(ctx, p, efa.Complete(efa.Delivered)))

	stopProcess(t, cmd.Process)
	clear(p)
	c := done(t, start(t, me, &efa.ReadReq{From: peer, At: r, Buf: p}))
	require.Equal(t, "direct read", c.Protocol.String())
	require.Equal(t, -1, wrongAt(p, 1<<40))
	stamp(p, 2<<40)
	w := done(t, start(t, me, &efa.WriteReq{To: peer, At: r, Buf: p, Level: efa.Delivered}))
	require.Equal(t, "direct write", w.Protocol.String())
	clear(p)
	done(t, start(t, me, &efa.ReadReq{From: peer, At: r, Buf: p}))
	require.Equal(t, -1, wrongAt(p, 2<<40), "read what was written while it was stopped")
}
