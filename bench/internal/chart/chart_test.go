package chart

import (
	"bytes"
	"image/png"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"
)

// TestDraw: any figures make a picture, in whatever order they come, and none do.
func TestDraw(t *testing.T) {
	var some, none Curves
	for _, size := range []int{64 << 10, 8, 0, 1 << 20} {
		some.Add("a", size, float64(size))
		some.Add("b", size, math.Inf(1))
	}
	left, err := Panel("title", "label", &some)
	require.NoError(t, err)
	assert.Equal(t, plotter.XYs{{X: 8, Y: 8}, {X: 64 << 10, Y: 64 << 10}, {X: 1 << 20, Y: 1 << 20}}, some.points["a"])
	assert.Equal(t, []string{"a"}, some.names)
	right, err := Panel("title", "label", &none)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Draw(&b, left, right))
	_, err = png.Decode(&b)
	require.NoError(t, err)
}
