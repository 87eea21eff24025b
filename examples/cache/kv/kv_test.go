package kv

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTorn: no mixture of two values, and no byte that is wrong, is taken for a value.
func TestTorn(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	older, newer, mixed := make([]byte, entryLen), make([]byte, entryLen), make([]byte, entryLen)
	encode(older, 2, "key", bytes.Repeat([]byte("old"), 200))
	n := encode(newer, 4, "key", bytes.Repeat([]byte("new"), 300))
	for range 10_000 {
		const line = 64 // what memory moves at once, at most
		for i := 0; i < n; i += line {
			from := older
			if rnd.IntN(2) == 0 {
				from = newer
			}
			copy(mixed[i:i+line], from[i:])
		}
		switch version, _, v, ok := decode(mixed); {
		case ok && version == 2:
			require.Equal(t, strings.Repeat("old", 200), string(v))
		case ok && version == 4:
			require.Equal(t, strings.Repeat("new", 300), string(v))
		default:
			require.False(t, ok)
		}
	}
	for i := sumAt; i < n; i++ {
		newer[i] ^= 0x40
		_, _, _, ok := decode(newer)
		require.False(t, ok, "byte %d", i)
		newer[i] ^= 0x40
	}
}

func TestPutGet(t *testing.T) {
	ctx, a, b := pair(t)
	_, _, err := a.Get(ctx, "nobody's")
	require.ErrorIs(t, err, ErrNotFound)
	for i := range 100 {
		key, value := fmt.Sprint("key ", i%10), bytes.Repeat([]byte{byte(i)}, i*18)
		require.NoError(t, a.Put(ctx, key, value))
		for _, c := range []*Cache{a, b} {
			got, version, err := c.Get(ctx, key)
			require.NoError(t, err)
			require.Equal(t, value, got)
			require.Equal(t, uint64(2*(i/10+1)), version)
		}
		a, b = b, a
	}
	n, err := a.Puts(ctx)
	require.NoError(t, err)
	m, err := b.Puts(ctx)
	require.NoError(t, err)
	assert.Equal(t, uint64(100), n+m)
}

// TestDisplace: of two keys with one place the later one stays.
func TestDisplace(t *testing.T) {
	ctx, a, b := pair(t)
	one, two := "key", ""
	for i := 0; hash(two)%(2*entries) != hash(one)%(2*entries); i++ {
		two = fmt.Sprint("other ", i)
	}
	require.NoError(t, a.Put(ctx, one, []byte("first")))
	require.NoError(t, b.Put(ctx, two, []byte("second")))
	_, _, err := a.Get(ctx, one)
	require.ErrorIs(t, err, ErrNotFound)
	got, version, err := a.Get(ctx, two)
	require.NoError(t, err)
	assert.Equal(t, "second", string(got))
	assert.Equal(t, uint64(4), version, "versions are the entry's")
}

// TestTornIsReadAgain, and no longer than ctx says.
func TestTornIsReadAgain(t *testing.T) {
	ctx, a, b := pair(t)
	require.NoError(t, a.Put(ctx, "key", []byte("value")))
	entry := b.place("key")
	spoil := func(c byte) {
		require.NoError(t, entry.Slice(keyAt, 1).Write(ctx, []byte{c}, efa.Complete(efa.Delivered)))
	}
	spoil('x')
	for wait := 20 * time.Millisecond; a.Torn == 0; wait *= 4 { // a busy machine may read nothing in that
		short, cancel := context.WithTimeout(ctx, wait)
		_, _, err := a.Get(short, "key")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, wait, 30*time.Second)
	}
	spoil('k')
	got, _, err := a.Get(ctx, "key")
	require.NoError(t, err)
	assert.Equal(t, "value", string(got))
}

// TestLocked: a rank that finds an entry locked waits.
func TestLocked(t *testing.T) {
	ctx, a, b := pair(t)
	require.NoError(t, a.Put(ctx, "key", []byte("value")))
	word := efa.NewCell[uint64](b.place("key"))
	version, err := lock(ctx, word)
	require.NoError(t, err)
	require.Equal(t, uint64(2), version)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, a.Put(short, "key", []byte("other")), context.DeadlineExceeded)
	got, _, err := a.Get(ctx, "key")
	require.NoError(t, err)
	assert.Equal(t, "value", string(got), "a lock keeps no reader away")
	put := make(chan error, 1)
	go func() { put <- a.Put(ctx, "key", []byte("other")) }()
	require.NoError(t, word.Store(ctx, version))
	require.NoError(t, <-put)
	got, version, err = b.Get(ctx, "key")
	require.NoError(t, err)
	assert.Equal(t, "other", string(got))
	assert.Equal(t, uint64(4), version)
}

func TestTooLong(t *testing.T) {
	ctx, a, _ := pair(t)
	longest, value := strings.Repeat("k", MaxKey), make([]byte, MaxValue)
	require.NoError(t, a.Put(ctx, longest, value))
	got, _, err := a.Get(ctx, longest)
	require.NoError(t, err)
	assert.Equal(t, value, got)
	assert.Error(t, a.Put(ctx, longest+"k", nil))
	assert.Error(t, a.Put(ctx, "key", make([]byte, MaxValue+1)))
}

// pair is a cache of two ranks in one process.
func pair(t *testing.T) (context.Context, *Cache, *Cache) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	fabric, err := efa.Open(efa.Config{DeviceName: "sim"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, fabric.Close()) })
	groups := make([]*launch.Group, 2)
	for rank := range groups {
		domain, err := fabric.OpenDomain(efa.DomainConfig{})
		require.NoError(t, err)
		av := domain.NewAddressVector()
		ep, err := domain.NewEndpoint(efa.EndpointConfig{AV: av})
		require.NoError(t, err)
		require.NoError(t, ep.Enable(ctx))
		groups[rank] = &launch.Group{Rank: rank, Size: 2, Fabric: fabric, Domain: domain, AddressVector: av, Endpoint: ep}
		t.Cleanup(func() {
			assert.NoError(t, ep.Close())
			assert.NoError(t, domain.Close())
		})
	}
	for _, g := range groups {
		peers, err := g.AddressVector.InsertAll(groups[0].Endpoint.Address(), groups[1].Endpoint.Address())
		require.NoError(t, err)
		g.Peers = peers
	}
	caches, errs := make([]*Cache, 2), make(chan error, 2)
	for rank, g := range groups {
		go func() {
			var err error
			caches[rank], err = Open(ctx, g)
			errs <- err
		}()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	for _, c := range caches {
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
	}
	return ctx, caches[0], caches[1]
}
