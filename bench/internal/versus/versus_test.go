package versus

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "8": 8, "64k": 64 << 10, "64K": 64 << 10, "64KiB": 64 << 10, "16m": 16 << 20, "4g": 4 << 30, " 1m ": 1 << 20} {
		var s Size
		require.NoError(t, s.Set(text), text)
		assert.Equal(t, want, int(s), text)
	}
	for _, text := range []string{"", "k", "-8", "8x", "5g", "1e3", "99999999999999999999", "8 8"} {
		var s Size
		assert.Error(t, s.Set(text), text)
	}
	for n, want := range map[Size]string{0: "0", 8: "8", 1024: "1k", 1500: "1500", 16 << 20: "16m", 3 << 30: "3g", 4 << 40: "4096g"} {
		assert.Equal(t, want, n.String())
	}
}

func TestSweep(t *testing.T) {
	for _, c := range []struct {
		first, last, factor int
		want                []int
	}{
		{8, 128, 4, []int{8, 32, 128}},
		{8, 127, 4, []int{8, 32}},
		{8, 8, 2, []int{8}},
		{0, 4, 2, []int{0, 1, 2, 4}},
		{1 << 40, 1<<62 + 1, 1 << 30, []int{1 << 40}},
	} {
		assert.Equal(t, c.want, Sweep(c.first, c.last, c.factor), "%+v", c)
	}
}

func TestParseSizes(t *testing.T) {
	list, err := ParseSizes("8,4k, 1m")
	require.NoError(t, err)
	assert.Equal(t, []int{8, 4096, 1 << 20}, list)
	for _, text := range []string{"", "8,", "8;9"} {
		_, err := ParseSizes(text)
		assert.Error(t, err, text)
	}
}

func TestSpread(t *testing.T) {
	assert.Equal(t, Spread{Median: 2, Min: 1, Max: 9}, SpreadOf([]float64{9, 1, 2}))
	assert.Equal(t, Spread{Median: 2.5, Min: 1, Max: 9}, SpreadOf([]float64{3, 9, 1, 2}))
	assert.Equal(t, "2.50 (1.00..1234)", Spread{2.5, 1, 1234}.String())
}

// TestTurns: all run in every round, and nobody is always the first.
func TestTurns(t *testing.T) {
	var got [][2]int
	require.NoError(t, Turns(2, 3, func(round, system int) error {
		got = append(got, [2]int{round, system})
		return nil
	}))
	assert.Equal(t, [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {1, 0}}, got)
}
