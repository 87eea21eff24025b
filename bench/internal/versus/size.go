package versus

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxSize is the largest Size.
const MaxSize = 4 << 30

// Size is a flag: bytes, with k, m or g for the powers of 1024.
type Size int

// String gives as many of the largest unit as there are.
func (s *Size) String() string {
	n, units := int(*s), "kmg"
	unit := ""
	for n >= 1024 && n%1024 == 0 && units != "" {
		n, unit, units = n/1024, units[:1], units[1:]
	}
	return strconv.Itoa(n) + unit
}

// Set parses a size; 64K and 64KiB are the same.
func (s *Size) Set(text string) error {
	digits, shift := strings.ToLower(strings.TrimSpace(text)), 0
	for i, unit := range []string{"k", "m", "g"} {
		for _, suffix := range []string{unit, unit + "b", unit + "ib"} {
			if d, ok := strings.CutSuffix(digits, suffix); ok {
				digits, shift = d, 10*(i+1)
			}
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > MaxSize>>shift {
		return fmt.Errorf("%q: want bytes such as 8, 64k or 16m, up to 4g", text)
	}
	*s = Size(n << shift)
	return nil
}

// Sweep lists the sizes from first to last, each factor times the one before.
func Sweep(first, last, factor int) []int {
	list := []int{first}
	for n := first; n < last; {
		if n == 0 {
			n = 1
		} else if factor > 1 && n <= last/factor {
			n *= factor
		} else {
			break
		}
		list = append(list, n)
	}
	return list
}

// ParseSizes reads a list of sizes, separated by commas.
func ParseSizes(text string) ([]int, error) {
	var list []int
	for t := range strings.SplitSeq(text, ",") {
		var s Size
		if err := s.Set(t); err != nil {
			return nil, err
		}
		list = append(list, int(s))
	}
	return list, nil
}
