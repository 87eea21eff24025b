package sim_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
)

// TestReceiverWritesBack: the receiver of a packet may write to where its bytes came from, at
// once. Under the race detector this shows that PostSend has no further use for them when
// another goroutine delivers the packet.
func TestReceiverWritesBack(t *testing.T) {
	f := newFabric(t, sim.Config{Seed: 1}) // shuffled, in real time
	a := joinAble(t, f, able, device.QPConfig{QKey: 1, RNRRetry: 7})
	b := joinAble(t, f, able, device.QPConfig{QKey: 2, RNRRetry: 7})
	mem := make([]byte, 4000)
	mr, err := a.dev.Register(mem, anyAccess)
	require.NoError(t, err)
	out := a.wr(0, b, "")
	out.Payload = mem
	back := b.rdma(0, a, device.WRWrite, make([]byte, len(mem)), mr)

	const rounds = 100
	var written atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	until := func(p *party, what func() bool) {
		for !what() && ctx.Err() == nil {
			p.poll()
			runtime.Gosched()
		}
	}
	wg.Go(func() {
		for i := int64(1); i <= rounds; i++ {
			until(b, func() bool { return len(b.got) > 0 })
			b.got, b.bytes = nil, nil
			if b.PostSend(back) != nil {
				return
			}
			b.Doorbell()
			until(b, func() bool { return len(b.sent) > 0 })
			clear(b.sent)
			written.Store(i)
		}
	})
	for i := int64(1); i <= rounds; i++ {
		a.post(out)
		until(a, func() bool { return written.Load() == i && len(a.sent) > 0 })
		require.Equal(t, device.StatusOK, a.sent[0])
		clear(a.sent)
	}
}
