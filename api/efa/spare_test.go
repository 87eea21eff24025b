package efa_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/efactor/efactor/api/efa"
)

// TestBlockingCallsSideBySide: goroutines that block in calls of one endpoint each get their own
// outcome, whichever of them has the call that the endpoint keeps.
func TestBlockingCallsSideBySide(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	const callers, rounds = 4, 50
	var wg sync.WaitGroup
	for tag := range uint64(callers) {
		wg.Go(func() { sideBySide(ctx, t, tag, rounds, a) })
		wg.Go(func() {
			for i := range uint64(rounds) {
				buf := make([]byte, 8)
				m, err := b.ep.RecvTag(ctx, efa.Match{Tag: tag}, buf)
				if !assert.NoError(t, err) {
					return
				}
				assert.Equal(t, 8, m.N)
				assert.Equal(t, tag, m.Tag)
				assert.Equal(t, tag<<32|i, binary.NativeEndian.Uint64(buf))
			}
		})
	}
	wg.Wait()
}

// sideBySide sends numbered messages with one tag, injected and not.
func sideBySide(ctx context.Context, t *testing.T, tag, rounds uint64, from *side) {
	for i := range rounds {
		var opts []efa.OpOption
		if i%3 == 0 {
			opts = append(opts, efa.Inject)
		}
		if !assert.NoError(t, from.ep.SendTag(ctx, from.peer, tag, binary.NativeEndian.AppendUint64(nil, tag<<32|i), opts...)) {
			return
		}
	}
}
