package efa_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// victims are memory of each kind at one side, and ways to ask for it wrongly.
func victims(t *testing.T, s *side, n int) (ms []*efa.MemoryRegion, wrong map[string][2]efa.Remote) {
	readable, writable := alloc(t, s, n, efa.AccessRemoteRead), alloc(t, s, n, efa.AccessRemoteWrite)
	neither := alloc(t, s, n, efa.AccessRecv)
	other := func(r efa.Remote, by, mask uint64) efa.Remote {
		addr, key := r.Raw()
		return efa.RawRemote(addr+by, r.Len(), key^mask)
	}
	shift := func(m *efa.MemoryRegion, by uint64) efa.Remote { return other(m.Remote(), by, 0) }
	key := other(readable.Remote(), 0, 0x5555)
	closed, err := s.dom.Alloc(n, remote)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	return []*efa.MemoryRegion{readable, writable, neither}, map[string][2]efa.Remote{ // to read, to write
		"unknown key": {key, key},
		"closed":      {closed.Remote(), closed.Remote()},
		"right":       {writable.Remote(), readable.Remote()},
		"no right":    {neither.Remote(), neither.Remote()},
		"before":      {shift(readable, ^uint64(0)), shift(writable, ^uint64(0))},
		"behind":      {shift(readable, uint64(n)), shift(writable, uint64(n))},
		"half":        {shift(readable, uint64(n)-4), shift(writable, uint64(n)-4)},
		"far away":    {shift(readable, 1<<62), shift(writable, 1<<62)},
	}
}

// TestRefused: access with a key that nobody has, beyond the region or against its
// rights ends with an error at those who wait for it, with an event at the target,
// and changes nothing there. Both go on.
func TestRefused(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		const n = 100_000
		// Each with an endpoint of its own, since too many refusals are an attack.
		ms, wrong := victims(t, b, n)
		local := alloc(t, a, n, 0).Bytes()
		for name, at := range wrong {
			s := newEndpoint(t, a.dom, efa.EndpointConfig{SendQueue: a.ep.SendQueue()})
			to, err := s.av.Insert(b.ep.Address())
			require.NoError(t, err)
			refused := 0
			check := func(what string, err error) {
				t.Helper()
				what = fmt.Sprintf("%s: %s", name, what)
				require.ErrorIs(t, err, efa.ErrAccess, what)
				var oe *efa.OpError
				require.ErrorAs(t, err, &oe, what)
				require.Equal(t, to, oe.Peer, what)
				require.NotZero(t, oe.Provider, what)
				refused++
			}
			for _, size := range []int{8, 20_000, 70_000} {
				what := fmt.Sprint(size, " bytes")
				check("read of "+what, s.ep.Memory(to, at[0]).Read(ctx, local[:size]))
				check("delivered write of "+what, s.ep.Memory(to, at[1]).Write(ctx, local[:size], efa.Complete(efa.Delivered)))
				if size > 8 { // of the other nobody hears but the target
					check("write of "+what, s.ep.Memory(to, at[1]).Write(ctx, local[:size]))
				}
			}
			check("load", second(efa.NewCell[int64](s.ep.Memory(to, at[0])).Load(ctx)))
			check("swap", second(efa.NewCell[int64](s.ep.Memory(to, at[0])).CompareSwap(ctx, int64(1), 2)))
			check("delivered add", efa.NewCell[float64](s.ep.Memory(to, at[1])).Add(ctx, 1.5, efa.Complete(efa.Delivered)))
			require.NoError(t, efa.NewCell[float64](s.ep.Memory(to, at[1])).Add(ctx, 1.5), "nobody hears of it but the target")
			told := refused + 1
			if strings.HasPrefix(a.dom.Limits().Device, "shm") {
				told = 4 // the others' processors do the rest, and the target does not see it
			}
			for told > 0 {
				ev, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				if ev.Kind == efa.NewPeer || !ev.Address.Equal(s.ep.Address()) {
					continue // of one before: a write may be refused in several parts
				}
				require.Equal(t, efa.AccessRefused, ev.Kind, "%v", ev.Err)
				require.Error(t, ev.Err)
				if rma := strings.Contains(ev.Err.Error(), "_RT"); rma { // else it is the device's word
					byKey := name == "unknown key" || name == "closed"
					require.Equal(t, byKey, errors.Is(ev.Err, efa.ErrNoKey), "%s: %v", name, ev.Err)
					require.Equal(t, !byKey, errors.Is(ev.Err, efa.ErrAccess), "%s: %v", name, ev.Err)
				}
				told--
			}
			hello := start(t, s, &efa.SendReq{To: to})
			_, err = b.ep.Recv(ctx, nil)
			require.NoError(t, err)
			done(t, hello)
		}
		for _, m := range ms {
			require.Equal(t, pattern(n), m.Bytes())
		}
		marker(t, a, b)
	})
}
