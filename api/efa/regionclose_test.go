package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestRegionClosedInUse: a region that an operation uses is closed, at the side that
// owns the operation or at the other, at the beginning or in the middle. Close
// returns, each operation has its outcome, and both sides go on.
func TestRegionClosedInUse(t *testing.T) {
	const n = 4 << 20
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		packets := func(s *side) uint64 {
			st, err := s.ep.Stats(ctx)
			require.NoError(t, err)
			return st["PacketsRecv.CTSDATA"] + st["PacketsRecv.CTS"] + st["PacketsRecv.READRSP"]
		}
		region := func(s *side, here bool) *efa.MemoryRegion {
			if here {
				m, err := s.dom.Register(make([]byte, n), remote|efa.AccessSend|efa.AccessRecv)
				require.NoError(t, err)
				return m
			}
			m, err := s.dom.Alloc(n, remote)
			require.NoError(t, err)
			return m
		}
		for name, begin := range map[string]func(here, there *efa.MemoryRegion) []*efa.Op{
			"write": func(here, there *efa.MemoryRegion) []*efa.Op {
				return []*efa.Op{start(t, a, &efa.WriteReq{To: a.peer, At: there.Remote(), Buf: here.Bytes(), Level: efa.Delivered})}
			},
			"read": func(here, there *efa.MemoryRegion) []*efa.Op {
				return []*efa.Op{start(t, a, &efa.ReadReq{From: a.peer, At: there.Remote(), Buf: here.Bytes()})}
			},
			"message": func(here, there *efa.MemoryRegion) []*efa.Op {
				return []*efa.Op{
					start(t, b, &efa.RecvReq{Buf: there.Bytes(), Tagged: true}),
					start(t, a, &efa.SendReq{To: a.peer, Buf: here.Bytes(), Tagged: true}),
				}
			},
		} {
			for _, local := range []bool{true, false} {
				for _, middle := range []bool{true, false} {
					here, there := region(a, true), region(b, name == "message")
					before := packets(a) + packets(b)
					ops := begin(here, there)
					for middle && packets(a)+packets(b) < before+3 {
						select {
						case <-ops[0].Done(): // the devices do it alone
							middle = false
						default:
						}
					}
					first, second := here, there
					if !local {
						first, second = there, here
					}
					within(t, "Close", func() { require.NoError(t, first.Close()) })
					if name == "message" && !local {
						// The receive may have ended before the message came, which then waits.
						other := start(t, b, &efa.RecvReq{Buf: make([]byte, n), Tagged: true})
						_, _ = ops[1].Wait(ctx) // judged below
						other.Cancel()
						ops = append(ops, other)
					}
					for _, op := range ops {
						if _, err := op.Wait(ctx); err != nil {
							require.True(t, isAny(err, efa.ErrCanceled, efa.ErrAccess), "%s: %v", name, err)
							require.NotErrorIs(t, err, efa.ErrPeerFailed, name)
							require.NotErrorIs(t, err, efa.ErrTimedOut, name)
						}
					}
					require.NoError(t, second.Close())
					marker(t, a, b)
					marker(t, b, a)
				}
			}
		}
	})
}
