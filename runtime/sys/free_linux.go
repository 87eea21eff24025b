package sys

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	for _, g := range memoryGroups(root) {
		free = min(free, g.left())
	}
	return free, nil
}

// memoryGroup is where a version of cgroup has the limits of memory.
type memoryGroup struct {
	top, dir       string // the mount, and the process's group in it or below it
	limit, current string // names of files
	stat           string // what the names in memory.stat begin with, for all below
}

// memoryGroups are the process's own: of cgroup v2, v1, or both. One that cannot be read has no limit.
func memoryGroups(root string) (gs []memoryGroup) {
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
		g := memoryGroup{top: root + unescape(f[4])}
		switch v1 := strings.Split(kind[2], ","); {
		case kind[0] == "cgroup2":
			g.limit, g.current = "memory.max", "memory.current"
			g.dir = below(of[""], unescape(f[3]))
		case kind[0] == "cgroup" && slices.Contains(v1, "memory"):
			g.limit, g.current, g.stat = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
			g.dir = below(of["memory"], unescape(f[3]))
		default:
			return
		}
		g.dir = g.top + g.dir
		gs = append(gs, g)
	})
	return gs
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

// left is how many bytes the limits of the group and of those above it leave.
func (g *memoryGroup) left() uint64 {
	least := uint64(math.MaxUint64)
	for dir := g.dir; ; dir = filepath.Dir(dir) {
		least = min(least, g.leftIn(filepath.Clean(dir)))
		if len(dir) <= len(g.top) {
			return least
		}
	}
}

// leftIn is what one group leaves. Files of the page cache count as free: the kernel drops them before it ends
// a process.
func (g *memoryGroup) leftIn(dir string) uint64 {
	limit, limited := number(filepath.Join(dir, g.limit))
	current, ok := number(filepath.Join(dir, g.current))
	if !ok {
		return math.MaxUint64
	}
	var cache uint64
	eachLine(filepath.Join(dir, "memory.stat"), func(line string) {
		name, value, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch name {
		case g.stat + "inactive_file", g.stat + "active_file":
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
	if used := current - min(cache, current); used < limit {
		return limit - used
	}
	return 0
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
