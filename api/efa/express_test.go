package efa_test

import (
	"encoding/binary"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/api/efa"
)

// scarce is a pair on shared memory whose receivers have hardly a slot, so that senders
// meet RNR.
func scarce(t *testing.T) (a, b *side, sent *efa.Counter) {
	dir := filepath.Join(t.TempDir(), "fabric")
	mk := func() *side {
		dev, err := shm.Open(shm.Config{Dir: dir})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, dev.Close()) })
		dom := domainOn(t, dev, efa.DomainConfig{Progress: efa.ProgressManual})
		q := newQueue(t, dom, 64)
		sent = dom.NewCounter()
		return newEndpoint(t, dom, efa.EndpointConfig{
			SendQueue: q, RecvQueue: q, TxDepth: 32, SendCounter: sent,
			Protocol: efa.ProtocolConfig{RecvQueue: 4, SendQueue: 16, RNRRetry: -1},
		})
	}
	b, a = mk(), mk()
	introduce(t, a, b)
	return a, b, sent
}

// TestOrderOfWays: messages arrive in the order of the calls, and whole, whichever way
// each took: injected at once, injected into back-off, posted before, or long.
func TestOrderOfWays(t *testing.T) {
	a, b, sent := scarce(t)
	ctx := testContext(t)
	const messages = 3000
	size := func(i int) int {
		switch {
		case i%50 == 49:
			return 300 << 10
		case i%10 == 9:
			return 20 << 10
		default:
			return 8 + i%60
		}
	}
	failed := make(chan error, 1)
	go func() {
		failed <- func() error {
			small := make([]byte, 128)
			for i := range messages {
				p := small
				if n := size(i); n > len(small) || i%7 == 6 {
					p = make([]byte, n)
				}
				p = p[:size(i)]
				binary.LittleEndian.PutUint64(p, uint64(i))
				p[len(p)-1] ^= byte(i)
				if cap(p) != len(small) {
					for {
						_, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: p, Quiet: true})
						if err == nil {
							break
						}
						runtime.Gosched()
					}
				} else if err := a.ep.Send(ctx, a.peer, p, efa.Inject); err != nil {
					return err
				}
				clear(small) // which is ours again
			}
			return nil
		}()
	}()
	buf := make([]byte, 300<<10)
	for i := range messages {
		m, err := b.ep.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, size(i), m.N, "message %d", i)
		want := make([]byte, 8)
		binary.LittleEndian.PutUint64(want, uint64(i))
		if m.N == 8 {
			want[7] ^= byte(i)
		} else {
			require.Equal(t, byte(i), buf[m.N-1])
		}
		require.Equal(t, want, buf[:8])
	}
	require.NoError(t, <-failed)
	require.NoError(t, a.ep.Shutdown(ctx))
	ok, bad := sent.Value()
	require.EqualValues(t, messages, ok)
	require.Zero(t, bad)
}

// TestManyInject: goroutines that inject to each other's endpoint and receive there, all
// of which may find that they can run the shard themselves.
func TestManyInject(t *testing.T) {
	a, b, _ := scarce(t)
	ctx := testContext(t)
	const workers, messages = 4, 500
	var all sync.WaitGroup
	errs := make(chan error, 4*workers)
	for w := range workers {
		for _, s := range []*side{a, b} {
			all.Go(func() {
				for i := range messages {
					p := [8]byte{byte(i), byte(i >> 8), byte(w)}
					if err := s.ep.SendTag(ctx, s.peer, uint64(w), p[:], efa.Inject); err != nil {
						errs <- err
						return
					}
				}
			})
			all.Go(func() {
				var p [8]byte
				for i := range messages {
					if _, err := s.ep.RecvTag(ctx, efa.Match{Tag: uint64(w)}, p[:]); err != nil {
						errs <- err
						return
					}
					if want := [8]byte{byte(i), byte(i >> 8), byte(w)}; p != want {
						t.Errorf("got %v instead of %v", p, want)
						return
					}
				}
			})
		}
	}
	within(t, "a worker", all.Wait)
	require.Empty(t, errs)
}
