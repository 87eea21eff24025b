package main

import (
	"fmt"
	"strconv"
	"strings"
)

const maxSize = 4 << 30

// size is a flag: bytes, with k, m or g for the powers of 1024.
type size int

func (s *size) String() string {
	n, units := int(*s), "kmg"
	unit := ""
	for n >= 1024 && n%1024 == 0 && units != "" {
		n, unit, units = n/1024, units[:1], units[1:]
	}
	return strconv.Itoa(n) + unit
}

// Set reads what the user wrote; 64K and 64KiB are the same.
func (s *size) Set(text string) error {
	digits, shift := strings.ToLower(strings.TrimSpace(text)), 0
	for i, unit := range []string{"k", "m", "g"} {
		for _, suffix := range []string{unit, unit + "b", unit + "ib"} {
			if d, ok := strings.CutSuffix(digits, suffix); ok {
				digits, shift = d, 10*(i+1)
			}
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > maxSize>>shift {
		return fmt.Errorf("%q: want bytes such as 8, 64k or 16m, up to 4g", text)
	}
	*s = size(n << shift)
	return nil
}

// sweep lists the sizes from first to last, each factor times the one before.
func sweep(first, last, factor int) []int {
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
