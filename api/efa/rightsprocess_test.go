package efa_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

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
