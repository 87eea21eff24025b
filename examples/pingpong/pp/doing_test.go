package pp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDoing(t *testing.T) {
	var s Side
	began := time.Unix(1000, 0)
	require.Empty(t, s.Doing(began))
	d := &doing{bytes: 1 << 20, at: 41, sizes: 49, count: 400, began: began}
	s.round.Store(d)
	require.Equal(t, "1m bytes, size 41 of 49: 0 of 400 messages", s.Doing(began.Add(time.Second)))
	d.done.Store(100)
	require.Equal(t, "1m bytes, size 41 of 49: 100 of 400 messages, about 6s left", s.Doing(began.Add(2*time.Second)))
	d.warmup = true
	d.done.Store(400)
	require.Equal(t, "1m bytes, size 41 of 49: 400 of 400 messages of the warm-up", s.Doing(began.Add(3*time.Second)))
}
