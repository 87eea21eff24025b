package lloyd

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func alone(s []Sums) ([]Sums, error) { return s, nil }

func TestRun(t *testing.T) {
	points := []Point{{0, 0}, {0, 2}, {2, 0}, {100, 100}, {102, 100}, {104, 103}}
	centres := []Point{{0, 0}, {0, 2}, {500, 500}}
	of, steps, err := Run(points, centres, alone)
	require.NoError(t, err)
	// By hand: the first step puts {2,0} to {0,0}, and the far ones to {0,2}; its mean
	// {76,76} then loses {0,2}. No point ever belongs to {500,500}.
	assert.Equal(t, []int32{0, 0, 0, 1, 1, 1}, of)
	assert.Equal(t, []Point{{0, 0}, {102, 101}, {500, 500}}, centres)
	assert.Equal(t, 3, steps)
}

// TestNearest: at the end every point is with the centre nearest to it, and every centre
// is the mean of its points.
func TestNearest(t *testing.T) {
	points := Generate(3000, 6, 7)
	centres := slices.Clone(points[:6])
	of, _, err := Run(points, centres, alone)
	require.NoError(t, err)
	sums := make([]Sums, len(centres))
	for i, p := range points {
		for _, q := range centres {
			require.LessOrEqual(t, p.distance(centres[of[i]]), p.distance(q))
		}
		Add([]Sums{{At: p, N: 1}}, sums[of[i]:])
	}
	for k, s := range sums {
		require.NotZero(t, s.N)
		assert.Equal(t, Point{s.At.X / s.N, s.At.Y / s.N}, centres[k])
	}
}

// TestParts: as long as sums are made over all parts it does not matter where points are.
func TestParts(t *testing.T) {
	points := Generate(1000, 4, 1)
	want := slices.Clone(points[:4])
	_, _, err := Run(points, want, alone)
	require.NoError(t, err)

	const parts = 3
	in, out := make(chan []Sums), [parts]chan []Sums{}
	got, errs := [parts][]Point{}, make(chan error, parts)
	for r := range parts {
		out[r], got[r] = make(chan []Sums), slices.Clone(points[:4])
		go func() {
			_, _, err := Run(points[r*1000/parts:(r+1)*1000/parts], got[r], func(s []Sums) ([]Sums, error) {
				in <- s
				return <-out[r], nil
			})
			errs <- err
		}()
	}
	for ended := 0; ended < parts; {
		select {
		case err := <-errs:
			require.NoError(t, err)
			ended++
		case s := <-in:
			all := slices.Clone(s)
			for range parts - 1 {
				Add(<-in, all)
			}
			for _, c := range out {
				c <- all
			}
		}
	}
	for r := range parts {
		assert.Equal(t, want, got[r])
	}
}

func TestError(t *testing.T) {
	broken := errors.New("broken")
	_, _, err := Run(make([]Point, 1), make([]Point, 1), func([]Sums) ([]Sums, error) { return nil, broken })
	assert.ErrorIs(t, err, broken)
}
