package sysfs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/efactor/efactor/actors/device"
)

// Bounds of what is read.
const (
	maxText    = 4096  // bytes of a file: the kernel's own are at most a page
	maxDevices = 256   // entries of a class
	maxPCI     = 65536 // functions of a host
)

// errOdd is wrapped by errors about what a file says, in contrast to one that cannot be
// read.
var errOdd = errors.New("not what the kernel would say")

// tree is sysfs, or a copy of it. Links that leave it are refused.
type tree struct{ *os.Root }

// text reads a file without the space around it. There must be some text, all of it
// printable.
func (t tree) text(name string) (string, error) {
	// O_NONBLOCK: opening a FIFO that nobody writes does not wait.
	f, err := t.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil {
		return "", err
	} else if !st.Mode().IsRegular() {
		return "", fmt.Errorf("%s: %w: it is no file", name, errOdd)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, err)
	case len(b) > maxText:
		return "", fmt.Errorf("%s: %w: more than %d bytes", name, errOdd, maxText)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", fmt.Errorf("%s: %w", name, errEmpty)
	}
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return "", fmt.Errorf("%s: %w: byte %#x", name, errOdd, c)
		}
	}
	return s, nil
}

// errEmpty is of a file that says nothing, which some of the kernel's do.
var errEmpty = fmt.Errorf("%w: it is empty", errOdd)

// names lists a folder of at most so many entries. One that does not exist is empty.
func (t tree) names(dir string, most int) ([]string, error) {
	f, err := t.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.Readdirnames(most + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: %w", dir, err)
	case len(list) > most:
		return nil, fmt.Errorf("%s: %w: more than %d entries", dir, errOdd, most)
	}
	return list, nil
}

// target is the last element of a link's target.
func (t tree) target(link string) (string, error) {
	s, err := t.Readlink(link)
	if err != nil {
		return "", err
	}
	return path.Base(s), nil
}

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
