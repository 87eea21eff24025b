//go:build linux

package driver_test

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

func noise(n int) []byte {
	b := make([]byte, n)
	rnd := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// TestPlainMessage: a message of 1 MiB between plain slices is read by the receiver's card
// out of one into the other: one packet, no copies. What the peer may read is registered for
// the message and no longer; the receiver's registration is kept.
func TestPlainMessage(t *testing.T) {
	const size, times = 1 << 20, 3
	a, b := pairOf(t, named(t, "efa", nil), efa.DomainConfig{}, efa.ProtocolConfig{})
	a.sent.take()
	was, wasB, lockedA := a.stats(), b.stats(), a.mem.now()
	src, dst := noise(size), make([]byte, size)
	for range times {
		clear(dst)
		pass(a, b, src, dst)
		require.Equal(t, src, dst)
	}
	copied, gathered := a.sent.take()
	require.Zero(t, copied+gathered)
	at, to := a.counts(was), b.counts(wasB)
	require.Equal(t, times, at("PacketsSent.LONGREAD_MSGRTM"))
	require.Equal(t, times, at("Queue.SendPosted"))
	require.Equal(t, times*size, to("Queue.RDMAReadBytes"))
	require.Zero(t, to("Copied"))
	require.Equal(t, []int{times, 0}, []int{at("Plain.Lent"), at("Plain.Entries")})
	require.Equal(t, []int{1, times - 1, 1}, []int{to("Plain.Misses"), to("Plain.Hits"), to("Plain.Entries")})
	require.Eventually(t, func() bool { return a.mem.now() == lockedA }, testenv.Hang, time.Millisecond)
}

// TestGather: packets of long messages take their payload from registered memory, the
// application's or the cache's; of short ones it is copied.
func TestGather(t *testing.T) {
	a, b := pairOf(t, named(t, "efa", nil), efa.DomainConfig{}, efa.ProtocolConfig{})
	region, err := a.dom.Alloc(1<<20, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, region.Close()) }()
	own := make([]byte, 300_000)
	registered, err := a.dom.Register(own, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, registered.Close()) }()
	for _, c := range []struct {
		name    string
		mem     []byte
		gathers bool
	}{
		{"8 bytes of Alloc", region.Bytes()[:8], false},
		{"4096 bytes of Alloc", region.Bytes()[:4096], false},
		{"eager, Alloc", region.Bytes()[:8000], true},
		{"eager, plain", make([]byte, 8000), false},
		{"medium, Alloc", region.Bytes()[100:40_000], true},
		{"medium, plain", make([]byte, 40_000), false},
		{"medium, plain and long", make([]byte, 65536), true},
		{"long-CTS, Alloc", region.Bytes()[:500_000], true},
		{"long-CTS, registered", own, true},
		{"long-CTS, plain", make([]byte, 300_000), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			copy(c.mem, noise(len(c.mem)))
			dst := make([]byte, len(c.mem))
			a.sent.take()
			pass(a, b, c.mem, dst)
			require.Equal(t, c.mem, dst)
			copied, gathered := a.sent.take()
			if c.gathers {
				require.Equal(t, []int{0, len(dst)}, []int{copied, gathered})
			} else {
				require.Equal(t, []int{len(dst), 0}, []int{copied, gathered})
			}
		})
	}
}

// TestPlainRMA: writes from plain slices and reads into them are RDMA, without a copy, on a
// card that does both.
func TestPlainRMA(t *testing.T) {
	const size = 300_000
	a, b := pairOf(t, named(t, "rdma-write", nil), efa.DomainConfig{}, efa.ProtocolConfig{})
	region, err := b.dom.Alloc(size, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, region.Close()) }()
	was, wasB := a.stats(), b.stats()
	src, dst := noise(size), make([]byte, size)
	for range 3 {
		clear(dst)
		require.NoError(t, a.ep.Memory(a.peer, region.Remote()).Write(timeout(t), src))
		require.NoError(t, a.ep.Memory(a.peer, region.Remote()).Read(timeout(t), dst))
		require.Equal(t, src, dst)
	}
	at, to := a.counts(was), b.counts(wasB)
	require.Equal(t, 6*size, at("Queue.RDMABytes"))
	require.Zero(t, at("Queue.SendPosted")+at("Copied")+to("Copied"))
	require.Equal(t, []int{2, 4}, []int{at("Plain.Misses"), at("Plain.Hits")})
}

// TestMemoryLimit: if the kernel locks no more memory, what is plain goes by copy, and the
// application's own wishes come first.
func TestMemoryLimit(t *testing.T) {
	const size = 1 << 20
	a, b := pairOf(t, named(t, "rdma-write", nil), efa.DomainConfig{}, efa.ProtocolConfig{})
	remote, err := b.dom.Alloc(size, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	require.NoError(t, err)
	defer func() { require.NoError(t, remote.Close()) }()
	round := func() {
		src, dst := noise(size), make([]byte, size)
		pass(a, b, src, dst)
		require.Equal(t, src, dst)
		pass(b, a, src[:200_000], dst)
		require.NoError(t, a.ep.Memory(a.peer, remote.Remote()).Write(timeout(t), src))
		clear(dst)
		require.NoError(t, a.ep.Memory(a.peer, remote.Remote()).Read(timeout(t), dst))
		require.Equal(t, src, dst)
	}
	a.mem.set(1000)
	b.mem.set(1000)
	was, wasB := a.stats(), b.stats()
	round()
	at, to := a.counts(was), b.counts(wasB)
	for _, n := range []func(string) int{at, to} {
		require.Zero(t, n("Plain.Misses")+n("Plain.Lent")+n("Plain.Entries"))
		require.Positive(t, n("Plain.Refused"))
	}
	a.mem.set(2*size + 1000)
	b.mem.set(2*size + 1000)
	for range 300 { // the device is asked again
		round()
		if at := a.counts(was); at("Plain.Misses") > 0 {
			break
		}
	}
	require.Positive(t, a.counts(was)("Plain.Misses"))
	mine, err := a.dom.Alloc(3*size/2, 0)
	require.NoError(t, err, "registrations that nobody uses make room")
	require.NoError(t, mine.Close())
}

// TestNoRegistrations: without a cache memory is registered for each operation, and with
// MinRegister below 0 for none.
func TestNoRegistrations(t *testing.T) {
	const size = 200_000
	a, b := pairOf(t, named(t, "efa", nil), efa.DomainConfig{Registrations: -1}, efa.ProtocolConfig{})
	was := a.stats()
	src, dst := noise(size), make([]byte, size)
	pass(a, b, src, dst)
	pass(a, b, src, dst)
	require.Equal(t, src, dst)
	at := a.counts(was)
	require.Equal(t, []int{2, 0, 0}, []int{at("Plain.Misses"), at("Plain.Hits"), at("Plain.Entries")})

	a, b = pairOf(t, named(t, "efa", nil), efa.DomainConfig{}, efa.ProtocolConfig{MinRegister: -1})
	was = a.stats()
	pass(a, b, src, dst)
	require.Zero(t, a.counts(was)("Plain.Misses"))
	copied, gathered := a.sent.take()
	require.Greater(t, copied, size)
	require.Zero(t, gathered)
}

// TestFreshSlices: messages from and into ever new slices, at addresses that come again, are
// whole, and the cache stays within its limits.
func TestFreshSlices(t *testing.T) {
	const size, entries = 1 << 20, 3
	a, b := pairOf(t, named(t, "efa", nil), efa.DomainConfig{Registrations: entries}, efa.ProtocolConfig{})
	was := b.stats()
	for i := range 24 {
		src, dst := make([]byte, size), make([]byte, size)
		for j := range src {
			src[j] = byte(i + j>>8)
		}
		pass(a, b, src, dst)
		require.Equal(t, src, dst)
		pass(b, a, src[:100_000], dst)
		if i%8 == 7 {
			runtime.GC()
			debug.FreeOSMemory()
		}
	}
	to := b.counts(was)
	require.LessOrEqual(t, to("Plain.Entries"), entries)
	require.Greater(t, to("Plain.Dropped"), 24)
	require.Zero(t, to("Copied"))
}
