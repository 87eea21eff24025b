package sys

import (
	"bufio"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FreeMemory is how many bytes of memory this process may still use before the kernel pages, or ends
// processes: what the host has available, or less if the process's memory cgroup (a container's limit), or one
// above it, leaves less.
func FreeMemory() (uint64, error) { return freeMemory("") }

// freeMemory is FreeMemory by the files below root.
func freeMemory(root string) (uint64, error) {
	b, err := os.ReadFile(root + "/proc/meminfo")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "\nMemAvailable:")
	var kib uint64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0, fmt.Errorf("MemAvailable: %w", err)
	}
	free := kib << 10
	for _, g := range groups(root, "memory") {
		for dir := range g.upwards() {
			free = min(free, g.memoryLeft(dir))
		}
	}
	return free, nil
}

// CPULimit is how many CPUs' time this process may use, by the quota of its cpu cgroup (a container's limit) or
// of one above it: +Inf without a quota. Go's runtime heeds the process's own group alone, and no
// limit below 2.
func CPULimit() float64 { return cpuLimit("") }

// cpuLimit is CPULimit by the files below root.
func cpuLimit(root string) float64 {
	least := math.Inf(1)
	for _, g := range groups(root, "cpu") {
		for dir := range g.upwards() {
			least = min(least, quota(dir))
		}
	}
	return least
}

// quota is the limit of one cpu cgroup, of either version.
func quota(dir string) float64 {
	b, _ := os.ReadFile(filepath.Join(dir, "cpu.max")) // "max 100000", or two numbers
	var limit, period float64
	if n, _ := fmt.Sscan(string(b), &limit, &period); n < 2 {
		q, limited := number(filepath.Join(dir, "cpu.cfs_quota_us")) // or -1
		p, ok := number(filepath.Join(dir, "cpu.cfs_period_us"))
		if !limited || !ok {
			return math.Inf(1)
		}
		limit, period = float64(q), float64(p)
	}
	if !(limit > 0 && period > 0) { // also if one is no number
		return math.Inf(1)
	}
	return limit / period
}

// group is where a controller's groups are, of one version of cgroup.
type group struct {
	v2       bool
	top, dir string // the mount, and the process's group in it or below it
}

// groups are those of the process for a controller: of cgroup v2, v1, or both. One that cannot be read has no
// limit.
func groups(root, controller string) (gs []group) {
	of := map[string]string{} // by controllers: "" is v2
	eachLine(root+"/proc/self/cgroup", func(line string) {
		if f := strings.SplitN(line, ":", 3); len(f) == 3 {
			for _, c := range strings.Split(f[1], ",") {
				of[c] = f[2]
			}
		}
	})
	eachLine(root+"/proc/self/mountinfo", func(line string) {
		before, after, ok := strings.Cut(line, " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(kind) < 3 {
			return
		}
		g := group{v2: kind[0] == "cgroup2", top: root + unescape(f[4])}
		switch {
		case g.v2:
			g.dir = below(of[""], unescape(f[3]))
		case kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), controller):
			g.dir = below(of[controller], unescape(f[3]))
		default:
			return
		}
		g.dir = g.top + g.dir
		gs = append(gs, g)
	})
	return gs
}

// upwards are the group's directory and those above it, up to the mount.
func (g *group) upwards() iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := g.dir; yield(filepath.Clean(dir)) && len(dir) > len(g.top); {
			dir = filepath.Dir(dir)
		}
	}
}

// below is the path of a group in a mount of which mounted is the root. A group outside of that, as in a
// container that sees its own group alone, is taken to be that root.
func below(group, mounted string) string {
	if mounted == "/" && !strings.HasPrefix(group, "/..") {
		return filepath.Clean("/" + group)
	}
	if rest, ok := strings.CutPrefix(group, mounted); ok && (rest == "" || rest[0] == '/') {
		return filepath.Clean("/" + rest)
	}
	return "/"
}

// unescape is a path of mountinfo, which has blanks as octal numbers.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// memoryLeft is what a memory cgroup leaves. Files of the page cache count as free: the kernel drops them before
// it ends a process.
func (g *group) memoryLeft(dir string) uint64 {
	file, used, stat := "memory.limit_in_bytes", "memory.usage_in_bytes", "total_" // total: for all below
	if g.v2 {
		file, used, stat = "memory.max", "memory.current", ""
	}
	limit, limited := number(filepath.Join(dir, file))
	current, ok := number(filepath.Join(dir, used))
	if !ok {
		return math.MaxUint64
	}
	var cache uint64
	eachLine(filepath.Join(dir, "memory.stat"), func(line string) {
		name, value, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch name {
		case stat + "inactive_file", stat + "active_file":
			cache += n
		case "hierarchical_memory_limit": // of v1, also of groups above that are not seen
			if err == nil && (!limited || n < limit) {
				limit, limited = n, true
			}
		}
	})
	if !limited {
		return math.MaxUint64
	}
	return limit - min(limit, current-min(cache, current))
}

// number reads a file that holds one. False: it is not there, or says "max".
func number(file string) (uint64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// eachLine calls f for each line of a file, if it is there.
func eachLine(file string, f func(line string)) {
	r, err := os.Open(file)
	if err != nil {
		return
	}
	defer r.Close()
	for s := bufio.NewScanner(r); s.Scan(); {
		f(s.Text())
	}
}

// loadFile tells how many threads of the host run or wait for a CPU.
var loadFile = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 'l', 'o', 'a', 'd', 'a', 'v', 'g', 0}

// wholeHost reports whether this process may use all of the host's CPUs. False where some in between are offline.
var wholeHost = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/sys/devices/system/cpu/online")
	all := "0"
	if n := runtime.NumCPU(); n > 1 {
		all = fmt.Sprintf("0-%d", n-1)
	}
	return err == nil && strings.TrimSpace(string(text)) == all
})

// Crowded reports whether at this moment more threads want a CPU than the host has. known is false where the host does not
// say so, or where this process may not use all its CPUs. It takes 3 us.
func Crowded() (crowded, known bool) {
	if !wholeHost() {
		return false, false
	}
	at := unix.AT_FDCWD
	fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&loadFile)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return false, false
	}
	var text [64]byte
	n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&text)), uintptr(len(text)))
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	if errno != 0 {
		return false, false
	}
	running, ok := runningThreads(text[:n])
	return running > runtime.NumCPU(), ok && running > 0 // the caller runs, so none is no answer
}

// runningThreads reads the fourth field, "2/345": threads that run or want to, and all.
func runningThreads(load []byte) (n int, ok bool) {
	field := 0
	for _, c := range load {
		switch {
		case c == ' ':
			field++
		case field != 3:
		case c == '/':
			return n, ok
		case c < '0' || c > '9' || n > 1<<20:
			return 0, false
		default:
			n, ok = 10*n+int(c-'0'), true
		}
	}
	return 0, false
}
