package shard_test

import (
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// TestGrace: the helper takes a shard whose driver has just left within a few times
// Grace, in an idle process too. Machines are busy at times, so a quarter of the times
// is enough, in one try of many.
func TestGrace(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "setter", setter())
	quarter := func() time.Duration {
		var took []time.Duration
		for range 100 {
			parked(t, s)
			s.Drive() // so that the helper stands by
			began, done := clock.System.Now(), make(chan struct{})
			s.Post(ref, &note{do: func(actor.Context) { close(done) }})
			<-done
			took = append(took, clock.System.Now().Sub(began))
		}
		slices.Sort(took)
		return took[len(took)/4]
	}
	least := quarter()
	for try := 1; try < 20 && least >= time.Millisecond; try++ {
		least = min(least, quarter())
	}
	require.Less(t, least, time.Millisecond)
}
