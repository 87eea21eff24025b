// Package lloyd divides points into clusters by Lloyd's algorithm, also known as k-means:
// each point goes to the nearest centre, each centre to the mean of its points, again
// until no point changes its cluster.
//
// Nothing here knows of ranks. A caller that has only some of the points makes the sums
// over all of them; coordinates are integers, so that these are the same in any order.
package lloyd

import "math/rand/v2"

// Point is a place in the plane, or a sum of such.
type Point struct{ X, Y int64 }

// Sums is a step's result for a cluster.
type Sums struct {
	At       Point // of all its points
	N, Moved int64 // how many they are, and how many have come from another cluster
}

// Add is the operator for sums over all ranks.
func Add(in, inout []Sums) {
	for i, s := range in {
		t := &inout[i]
		*t = Sums{Point{t.At.X + s.At.X, t.At.Y + s.At.Y}, t.N + s.N, t.Moved + s.Moved}
	}
}

// Run moves the centres until they stay, and returns the cluster of each point and how
// many steps that took. total makes the sums over all points of those over these.
func Run(points, centres []Point, total func([]Sums) ([]Sums, error)) (of []int32, steps int, err error) {
	of = make([]int32, len(points))
	for i := range of {
		of[i] = -1
	}
	sums := make([]Sums, len(centres))
	for {
		clear(sums)
		assign(points, centres, of, sums)
		all, err := total(sums)
		if err != nil {
			return nil, steps, err
		}
		steps++
		moved := int64(0)
		for k, s := range all {
			moved += s.Moved
			if s.N > 0 {
				centres[k] = Point{s.At.X / s.N, s.At.Y / s.N}
			}
		}
		if moved == 0 {
			return of, steps, nil
		}
	}
}

// assign gives each point to the nearest centre, the first of those that are equally near.
func assign(points, centres []Point, of []int32, sums []Sums) {
	for i, p := range points {
		nearest, least := 0, p.distance(centres[0])
		for k := 1; k < len(centres); k++ {
			if d := p.distance(centres[k]); d < least {
				nearest, least = k, d
			}
		}
		s := &sums[nearest]
		s.At.X += p.X
		s.At.Y += p.Y
		s.N++
		if of[i] != int32(nearest) {
			of[i] = int32(nearest)
			s.Moved++
		}
	}
}

// distance is squared.
func (p Point) distance(q Point) int64 {
	x, y := p.X-q.X, p.Y-q.Y
	return x*x + y*y
}

// Generate makes n points around k places, from a seed.
func Generate(n, k int, seed uint64) []Point {
	rnd := rand.New(rand.NewPCG(seed, 0))
	around := make([]Point, k)
	for i := range around {
		around[i] = Point{rnd.Int64N(1_000_000), rnd.Int64N(1_000_000)}
	}
	points := make([]Point, n)
	for i := range points {
		c := around[rnd.IntN(k)]
		points[i] = Point{c.X + int64(60_000*rnd.NormFloat64()), c.Y + int64(60_000*rnd.NormFloat64())}
	}
	return points
}
