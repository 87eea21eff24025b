//go:build linux && (amd64 || arm64)

package nthcall

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/efactor/efactor/runtime/clock"
)

// state is what a process holds.
type state struct {
	fds        map[int]string
	goroutines int
	files      []string
	mapped     map[string]int // bytes by what is mapped
}

// descriptors are those of this process, with what they are.
func descriptors() (map[int]string, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	fds := make(map[int]string)
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, err
		}
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil { // else it is that of the directory, which is closed
			fds[fd] = to
		}
	}
	return fds, nil
}

// take looks at this process; dirs are where its devices have files.
func take(dirs []string) (s state, err error) {
	if s.fds, err = descriptors(); err != nil {
		return s, err
	}
	s.goroutines = runtime.NumGoroutine()
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*"))
		s.files = append(s.files, files...)
	}
	s.mapped, err = mappings()
	return s, err
}

// mappings are those of files, one for each, and all anonymous memory outside of the Go
// heap together.
func mappings() (map[string]int, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := make(map[string]int)
	heap := uint64(uintptr(unsafe.Pointer(&heaped[0]))) >> 36
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		lo, hi, _ := strings.Cut(fields[0], "-")
		from, err1 := strconv.ParseUint(lo, 16, 64)
		to, err2 := strconv.ParseUint(hi, 16, 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("maps: %q", lines.Text())
		}
		switch {
		case len(fields) == 5 && from>>36 != heap && !raceOn: // the race detector's own memory grows for long
			m[anonymous] += int(to - from)
		case len(fields) > 5 && strings.HasPrefix(fields[5], "/"):
			m[fields[5]] += int(to - from)
		}
	}
	return m, lines.Err()
}

// heaped lies in the Go heap, whose arenas follow each other.
var heaped = make([]byte, 1<<16)

const anonymous = "anonymous memory"

// remains says what there is now that was not there before, without what a row explains.
// What ends by itself is given time; memory that is there stays.
func remains(before state, dirs []string, r row) (left []string, err error) {
	for begin := clock.System.Now(); ; {
		now, err := take(dirs)
		if err != nil {
			return nil, err
		}
		left = r.unexpected(before.more(now))
		patience := 20 * time.Second
		if len(left) == 1 && strings.HasSuffix(left[0], anonymous) {
			patience /= 1000
		}
		if len(left) == 0 || clock.System.Now().Sub(begin) > patience {
			return left, nil
		}
		pause(2 * time.Millisecond)
	}
}

func (s state) more(now state) (left []string) {
	for _, fd := range slices.Sorted(maps.Keys(now.fds)) {
		if s.fds[fd] != now.fds[fd] {
			left = append(left, fmt.Sprintf("descriptor %d: %s", fd, now.fds[fd]))
		}
	}
	if now.goroutines > s.goroutines {
		b := make([]byte, 32<<10)
		left = append(left, fmt.Sprintf("%d goroutines instead of %d\n%s", now.goroutines, s.goroutines, b[:runtime.Stack(b, true)]))
	}
	for _, f := range now.files {
		if !slices.Contains(s.files, f) {
			left = append(left, "file "+f)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(now.mapped)) {
		if n := now.mapped[what] - s.mapped[what]; n > 0 {
			left = append(left, fmt.Sprintf("mapping of %d KiB: %s", n>>10, what))
		}
	}
	return left
}

func pause(d time.Duration) {
	t := clock.NewTimer(d)
	defer t.Stop()
	<-t.C
}
