package efanet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// FuzzFrame: what parse lets through is within the bounds that the rest relies on.
func FuzzFrame(f *testing.F) {
	for k := kindOpen; k <= kindPress; k++ {
		f.Add(uint8(k%5), head(k, 1), 0)
		f.Add(uint8(laneStream), head(k, sized(3, 100)), maxFrame)
	}
	f.Fuzz(func(t *testing.T, l uint8, data uint64, n int) {
		if n < 0 {
			return
		}
		got, err := parse(lane(l), &efa.Message{N: n, Data: data, HasData: true})
		if err != nil {
			require.ErrorIs(t, err, errFrame)
			return
		}
		require.Equal(t, data, head(got.kind, got.value))
		require.LessOrEqual(t, got.n, maxGrant)
		switch got.kind {
		case kindData:
			require.Positive(t, got.n)
			require.LessOrEqual(t, got.n, maxFrame)
		case kindOffer:
			require.Positive(t, got.size())
		case kindGrant:
			require.Positive(t, got.size())
			require.LessOrEqual(t, got.size(), maxGrant)
		case kindCredit:
			require.LessOrEqual(t, got.value, uint64(window))
		}
	})
}

// FuzzOpen: an OPEN that is taken says the same when it is written again.
func FuzzOpen(f *testing.F) {
	const a = "shm://[fe80::11ff:fe00:a01]:4711:1804289383"
	f.Add((&open{1, accepted{window, 1}, a}).marshal())
	f.Add((&open{maxID, accepted{1 << 30, maxValue}, a}).marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		var o, again open
		if err := o.unmarshal(b); err != nil {
			require.ErrorIs(t, err, errFrame)
			require.Equal(t, open{}, o)
			return
		}
		require.NoError(t, again.unmarshal(o.marshal()))
		require.Equal(t, o, again)
	})
}

// FuzzPing: the same of a PING.
func FuzzPing(f *testing.F) {
	const a = "shm://[fe80::11ff:fe00:a01]:4711:1804289383"
	f.Add((&ping{1, a}).marshal())
	f.Add((&ping{maxValue, a}).marshal())
	f.Fuzz(func(t *testing.T, b []byte) {
		var q, again ping
		if err := q.unmarshal(b); err != nil {
			require.ErrorIs(t, err, errFrame)
			require.Equal(t, ping{}, q)
			return
		}
		require.NoError(t, again.unmarshal(q.marshal()))
		require.Equal(t, q, again)
	})
}
