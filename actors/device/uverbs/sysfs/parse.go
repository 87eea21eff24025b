package sysfs

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/efactor/efactor/actors/device"
)

// number reads a decimal number between least and most.
func number(s string, least, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: %q is no number from %d to %d", errOdd, short(s), least, most)
	}
	return n, nil
}

// id16 reads "0xefa1".
func id16(s string) (uint16, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	n, err := strconv.ParseUint(digits, 16, 16)
	if !ok || err != nil {
		return 0, fmt.Errorf("%w: %q is no number of 16 bits", errOdd, short(s))
	}
	return uint16(n), nil
}

// devNumbers reads "231:192". The kernel has 12 bits for one and 20 for the other.
func devNumbers(s string) (major, minor uint32, err error) {
	a, b, _ := strings.Cut(s, ":")
	x, err := number(a, 0, 1<<12-1)
	if err != nil {
		return 0, 0, err
	}
	y, err := number(b, 0, 1<<20-1)
	return uint32(x), uint32(y), err
}

// gid reads eight groups of four hexadecimal digits.
func gid(s string) (g device.GID, err error) {
	groups := strings.Split(s, ":")
	bad := fmt.Errorf("%w: %q is no GID", errOdd, short(s))
	if len(groups) != 8 {
		return g, bad
	}
	for _, x := range groups {
		if len(x) != 4 {
			return g, bad
		}
	}
	b, err := hex.DecodeString(strings.Join(groups, ""))
	if err != nil || len(b) != len(g) {
		return g, bad
	}
	return device.GID(b), nil
}

// rate reads "100 Gb/sec (4X EDR)" as bits a second.
func rate(s string) (int64, error) {
	whole, tenth, ok := cutRate(s)
	if !ok {
		return 0, fmt.Errorf("%w: %q is no rate", errOdd, short(s))
	}
	if tenth == "" {
		tenth = "0"
	}
	n, err := strconv.ParseInt(whole+tenth, 10, 64)
	return n * 100_000_000, err
}

// short is s as an error may quote it.
func short(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
