package sysfs

import "strings"

// The forms of what sysfs tells are checked by hand: package regexp would be in every program
// for these four.

const (
	digits    = "0123456789"
	hexDigits = digits + "abcdef" // the kernel writes small letters
	letters   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	wordChars = letters + digits + "_"
)

// all reports whether s has from least to most bytes, each one of set.
func all(s, set string, least, most int) bool {
	return least <= len(s) && len(s) <= most && strings.Trim(s, set) == ""
}

// isName reports whether s can name an RDMA device; it is part of a path.
func isName(s string) bool {
	return all(s, wordChars+".:-", 1, 63) && strings.IndexByte(".:-", s[0]) < 0
}

// isUverbs reports whether s names a character device of uverbs.
func isUverbs(s string) bool {
	n, ok := strings.CutPrefix(s, "uverbs")
	return ok && all(n, digits, 1, 6)
}

// isPCI reports whether s is a PCI address: "0000:00:1e.0".
func isPCI(s string) bool {
	p := strings.Split(s, ":")
	if len(p) != 3 || !all(p[0], hexDigits, 4, 8) || !all(p[1], hexDigits, 2, 2) {
		return false
	}
	device, function, ok := strings.Cut(p[2], ".")
	return ok && all(device, hexDigits, 2, 2) && all(function, "01234567", 1, 1)
}

// cutRate has the digits before and behind the point of "2.5 Gb/sec", and whatever follows; the
// point may be missing.
func cutRate(s string) (whole, tenth string, ok bool) {
	n, rest, ok := strings.Cut(s, " Gb/sec")
	if !ok || rest != "" && strings.IndexByte(wordChars, rest[0]) >= 0 {
		return "", "", false
	}
	whole, tenth, point := strings.Cut(n, ".")
	return whole, tenth, all(whole, digits, 1, 6) && (!point || all(tenth, digits, 1, 1))
}
