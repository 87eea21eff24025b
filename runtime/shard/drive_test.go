package shard_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

// TestDrive: a goroutine that polls gets its work done by its own turns, also
// when the shard was asleep under the helper before.
func TestDrive(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "setter", setter())
	ctx := soon(t)
	for range 20 {
		parked(t, s)
		for range 100 {
			var p ping
			s.Post(ref, &p)
			for !p.sig.IsSet() {
				require.NoError(t, ctx.Err())
				s.Drive()
			}
		}
	}
	for !s.Adopt() { // the helper may have it for a moment
	}
	require.Zero(t, s.Drive(), "it is ours")
	s.Release()
	other := newShard(t, shard.Config{Mode: shard.Cooperative})
	require.Zero(t, other.Drive())
}

// served is a poller that counts what it was given.
type served struct {
	given atomic.Int64
	taken int
}

func (p *served) Poll(*shard.Shard) int {
	n := int(p.given.Swap(0))
	p.taken += n
	return n
}
func (p *served) Flush(*shard.Shard) {}
func (p *served) Arm() bool          { return p.given.Load() == 0 }
func (p *served) FDs() []int         { return nil }

// TestServe: what a poller was given is done when Serve returns, unless somebody else
// owns the shard.
func TestServe(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "served", setter())
	var p served
	for !s.Adopt() { // the helper may have it for a moment
	}
	p.given.Store(1)
	s.Serve(ref, &p)
	require.Zero(t, p.taken, "it is ours")
	s.Release()
	for p.taken == 0 { // the helper may have it for a moment
		s.Serve(ref, &p)
	}
	require.Equal(t, 1, p.taken)

	pinned := newShard(t, shard.Config{Mode: shard.Cooperative})
	p.given.Store(1)
	pinned.Serve(spawn(t, pinned, "served", setter()), &p)
	require.Equal(t, 1, p.taken)
}
