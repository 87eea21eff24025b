package versus

import (
	"fmt"
	"slices"
	"strconv"
)

// Turns calls run in each round once for each of n systems. Another system is the first
// in every round.
func Turns(rounds, n int, run func(round, system int) error) error {
	for i := range rounds {
		for j := range n {
			if err := run(i, (i+j)%n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Percentile of a sorted list that is not empty.
func Percentile[T any](sorted []T, p int) T { return sorted[(len(sorted)-1)*p/100] }

// Spread is the result of a system's rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf sums up a list that is not empty.
func SpreadOf(list []float64) Spread {
	s := slices.Sorted(slices.Values(list))
	return Spread{(s[(len(s)-1)/2] + s[len(s)/2]) / 2, s[0], s[len(s)-1]}
}

// Times is the spread in another unit.
func (s Spread) Times(f float64) Spread { return Spread{s.Median * f, s.Min * f, s.Max * f} }

// String is for a table: the median, and the least and the most in brackets.
func (s Spread) String() string {
	return fmt.Sprintf("%s (%s..%s)", Digits(s.Median), Digits(s.Min), Digits(s.Max))
}

// Digits prints as many digits as mean something.
func Digits(v float64) string {
	switch {
	case v < 100:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 1000:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}
