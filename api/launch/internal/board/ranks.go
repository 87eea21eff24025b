package board

import (
	"fmt"
	"strings"
)

// maxRuns bounds how much of a list of ranks is printed.
const maxRuns = 12

// Ranks writes the ranks for which in is true as people do: "1, 4-6, 9".
func Ranks(size int, in func(rank int) bool) string {
	var b strings.Builder
	runs := 0
	for r := 0; r < size; r++ {
		if !in(r) {
			continue
		}
		first := r
		for r+1 < size && in(r+1) {
			r++
		}
		if runs++; runs > maxRuns {
			b.WriteString(", ...")
			break
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		if first == r {
			fmt.Fprintf(&b, "%d", r)
		} else {
			fmt.Fprintf(&b, "%d-%d", first, r)
		}
	}
	return b.String()
}
