package pp

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxSize is the longest message that Sizes takes.
const MaxSize = 1 << 30

// Sizes parses the argument of -S: one size in bytes, with k or m for KiB or MiB,
// "all", "tool", or "" for the tool's short list: 64, 256, 1k, 4k, 64k and 1m.
//
// "all" are the powers of two and one and a half times each, from 1 B to 16 MiB.
// fi_pingpong's own list, which is "tool" here, begins with 0 and ends with 6
// MiB: it has the size 0 in addition, and lacks 8m, 12m and 16m.
func Sizes(s string) ([]int, error) {
	switch strings.ToLower(s) {
	case "":
		return []int{64, 256, 1 << 10, 4 << 10, 64 << 10, 1 << 20}, nil
	case "all":
		return halvesUp(16 << 20), nil
	case "tool":
		return append([]int{0}, halvesUp(6<<20)...), nil
	}
	digits, unit := s, 1
	switch s[len(s)-1] | 0x20 {
	case 'k':
		digits, unit = s[:len(s)-1], 1<<10
	case 'm':
		digits, unit = s[:len(s)-1], 1<<20
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	switch {
	case err != nil:
		return nil, fmt.Errorf("size %q: want a number of bytes such as 8, 64k or 1m, or all", s)
	case n > MaxSize/uint64(unit):
		return nil, fmt.Errorf("size %s: the longest message is %s", s, sizeText(MaxSize))
	}
	return []int{int(n) * unit}, nil
}

// halvesUp lists 1, 2, 3, 4, 6, 8, 12... up to limit.
func halvesUp(limit int) []int {
	sizes := []int{1}
	for p := 2; p <= limit; p *= 2 {
		sizes = append(sizes, p)
		if h := p + p/2; h <= limit {
			sizes = append(sizes, h)
		}
	}
	return sizes
}

// sizeText returns a number of bytes as the tool does: 1.5k, 64k, 20m.
func sizeText(n uint64) string {
	unit, name := uint64(1), ""
	switch {
	case n >= 1<<40:
		unit, name = 1<<40, "t"
	case n >= 1<<30:
		unit, name = 1<<30, "g"
	case n >= 1<<20:
		unit, name = 1<<20, "m"
	case n >= 1<<10:
		unit, name = 1<<10, "k"
	}
	if tenths := n % unit * 10 / unit; n/unit < 10 && tenths > 0 {
		return fmt.Sprintf("%d.%d%s", n/unit, tenths, name)
	}
	return fmt.Sprintf("%d%s", n/unit, name)
}
