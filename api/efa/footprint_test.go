package efa_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestFootprint: bytes of heap for an address that is never used, for a peer that
// is idle, and for a receive that waits.
func TestFootprint(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has its own idea of memory")
	}
	// Many peers, so that the tables of actors are neither all full nor all half
	// empty.
	const addresses, peers = 50_000, 12_000
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	q := newQueue(t, dom, peers)
	s := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q})
	cs := make([]efa.Completion, peers)
	buf := make([]byte, 8)
	settle := func(from, to efa.Addr) { // post to each, cancel, read
		for h := from; h < to; h++ {
			id, err := s.ep.PostRecv(&efa.RecvReq{From: h, Directed: true, Buf: buf})
			require.NoError(t, err)
			require.NoError(t, s.ep.Cancel(id))
			n, err := q.Read(context.Background(), cs)
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.ErrorIs(t, cs[0].Err, efa.ErrCanceled)
			cs[0] = efa.Completion{}
		}
	}
	_, err := s.av.Insert(simAddress(addresses))
	require.NoError(t, err)
	settle(0, 1) // what comes once

	insert := func() {
		for i := range uint32(addresses) {
			if _, err := s.av.Insert(simAddress(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(what string, n, most int, f func()) {
		before := heap()
		f()
		each := (heap() - before) / n
		t.Logf("%s: %d B", what, each)
		require.Positive(t, each)
		require.LessOrEqual(t, each, most, what)
	}
	check("address never used", addresses, 192, insert)
	check("idle peer", peers, 1344, func() { settle(1, 1+peers) })
	check("posted receive", peers, 1024, func() {
		for n := 0; n < peers; {
			if _, err := s.ep.PostRecv(&efa.RecvReq{Buf: buf}); err == nil {
				n++
				continue
			}
			runtime.Gosched() // the way to the shard is full
		}
		_, err := s.ep.Stats(testContext(t)) // comes after them
		require.NoError(t, err)
	})
	runtime.KeepAlive(cs)
}

func heap() int {
	runtime.GC()
	runtime.GC() // what sync.Pool kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
