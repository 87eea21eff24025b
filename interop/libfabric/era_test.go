//go:build linux

package libfabric_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/internal/eratest"
)

// eras are the releases that efactor can behave like, from the first one on that
// knows delivery complete.
var eras = []string{"1.12", "1.13", "1.14", "1.16", "1.17.0", "1.18", "1.20", "1.22", "2.0", "2.2", "2.3.1", "2.6", "main", "2.7"}

// TestEras has libfabric flooded by an efactor that talks as another release does: so
// 1.17 judges what package era says of the others.
func TestEras(t *testing.T) {
	need(t)
	if brief() {
		t.Skip("it is about other releases")
	}
	for i, era := range eras {
		e := settings[i%2].shuffled(uint64(i))
		require.NoError(t, eratest.TalkLike(efatest.KnobsOf(&e.protocol), era))
		t.Run(era+", "+e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			for k := range 2 {
				w.flood(t, uint64(7*i+k+7), 150)
			}
		})
	}
}
