package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
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
