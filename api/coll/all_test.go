package coll_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/coll"
)

// elementKind is a type of element: it begins trials with that.
type elementKind struct {
	name  string
	begin func(ctx context.Context, c *coll.Comm, tr trial, block bool) (*pending, error)
	ops   int
	bytes int
}

var kinds = []elementKind{
	kindOf("int64", integers[int64](), 8),
	kindOf("uint8", integers[uint8](), 1),
	kindOf("int32", integers[int32](), 4),
	kindOf("uint", integers[uint](), 8),
	kindOf("float64", orderedNumbers[float64](), 8),
	kindOf("float32", orderedNumbers[float32](), 4),
	kindOf("complex128", numbers[complex128](), 16),
	kindOf("complex64", numbers[complex64](), 8),
	kindOf("affine", affines, 8),
}

func kindOf[T comparable](name string, f flavor[T], bytes int) elementKind {
	return elementKind{name, func(ctx context.Context, c *coll.Comm, tr trial, block bool) (*pending, error) {
		return begin(ctx, c, f, tr, block)
	}, len(f.ops), bytes}
}

// TestAll: every algorithm of every collective on every number of ranks, with
// every type and operator, against the definition. With -short each type has one of
// its operators at a time.
func TestAll(t *testing.T) {
	for _, p := range sizes {
		for _, reads := range []bool{false, true} {
			t.Run(fmt.Sprintf("ranks=%d/reads=%v", p, reads), func(t *testing.T) {
				t.Parallel()
				s := setup{seed: uint64(p), device: sim.DeviceConfig{RDMARead: reads}, lower: p%2 == 1}
				err := newParty(t, p, s).run(func(ctx context.Context, c *coll.Comm) error {
					return everything(ctx, c, reads)
				})
				require.NoError(t, err)
			})
		}
	}
}

func everything(ctx context.Context, c *coll.Comm, reads bool) error {
	i := 0
	for _, name := range coll.Collectives() {
		for _, alg := range coll.Algorithms(name) {
			for k, kind := range kinds {
				for op := range kind.ops {
					i++
					if (c.Size() > 5 || testing.Short()) && op != i/kind.ops%kind.ops {
						continue // one of them: in full they have all had their turn on fewer ranks
					}
					n := []int{0, 1, 3, 17, 100, 1000}[(i+op)%6]
					if k < 2 && op == 0 && c.Size() <= 5 { // long ones, in several frames
						n = 200 << 10 / kind.bytes
					}
					tr := trial{
						kind: name, seed: uint64(i), n: n, root: i % c.Size(), op: op,
						inPlace: i%3 == 0, alloc: reads && i%2 == 0,
						opts: []coll.Option{coll.Use(alg), coll.Segment(64 << 10)},
					}
					if name[len(name)-1] == 'v' || name == "reducescatter" && i%4 < 2 {
						for r := range c.Size() {
							tr.counts = append(tr.counts, (n*(r+i)%7+r)/3)
						}
					}
					p, err := kind.begin(ctx, c, tr, true)
					if err == nil {
						err = p.wait(ctx)
					}
					if err != nil {
						return fmt.Errorf("%s, %s: %w", alg, kind.name, err)
					}
				}
			}
		}
	}
	return nil
}
