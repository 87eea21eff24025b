package shard_test

import (
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
