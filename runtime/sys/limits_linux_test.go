package sys

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
)

const gib = 1 << 30

// tree writes files below a new directory, which it returns.
func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	return root
}

const (
	v2mount = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	v1mount = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	v2      = "sys/fs/cgroup/"
	v1      = "sys/fs/cgroup/memory/"
)

// TestFreeMemory: the least of what the host has available and the memory cgroups leave, of both versions, the
// process's own and those above it.
func TestFreeMemory(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string // beside meminfo, which has 8 GiB available
		want  uint64
	}{
		{"no cgroup", nil, 8 * gib},
		{"v2, none limited", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2mount,
			v2 + "a/b/memory.max": "max\n", v2 + "a/b/memory.current": "4096\n", v2 + "a/memory.max": "max\n", v2 + "a/memory.current": "4096\n",
		}, 8 * gib},
		{"v2, its own limit", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2mount,
			v2 + "a/b/memory.max": "1073741824\n", v2 + "a/b/memory.current": "268435456\n",
		}, gib - gib/4},
		{"v2, the limit above it is lower", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2mount,
			v2 + "a/b/memory.max": "1073741824\n", v2 + "a/b/memory.current": "0\n",
			v2 + "a/memory.max": "1073741824\n", v2 + "a/memory.current": "805306368\n",
		}, gib / 4},
		{"v2, files in the page cache are free", map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2mount,
			v2 + "a/memory.max": "1073741824\n", v2 + "a/memory.current": "1073741824\n",
			v2 + "a/memory.stat": "anon 5\nfile 900000000\ninactive_file 268435456\nactive_file 268435456\nshmem 4\n",
		}, gib / 2},
		{"v2, more used than the limit", map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2mount,
			v2 + "a/memory.max": "4096\n", v2 + "a/memory.current": "8192\n",
		}, 0},
		{"v2, the host has less", map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2mount,
			v2 + "a/memory.max": strconv.Itoa(64 * gib), v2 + "a/memory.current": "0\n",
		}, 8 * gib},
		{"v2, a container that is mounted as the root", map[string]string{
			"proc/self/cgroup":    "0::/docker/1234\n",
			"proc/self/mountinfo": "31 23 0:28 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			v2 + "memory.max":     "1073741824\n", v2 + "memory.current": "0\n",
		}, gib},
		{"v2, a group outside of the namespace", map[string]string{
			"proc/self/cgroup": "0::/../other\n", "proc/self/mountinfo": v2mount,
			v2 + "memory.max": "1073741824\n", v2 + "memory.current": "0\n",
		}, gib},
		{"v1", map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/job/7\n", "proc/self/mountinfo": v1mount,
			v1 + "job/7/memory.limit_in_bytes": "1073741824\n", v1 + "job/7/memory.usage_in_bytes": "536870912\n",
			v1 + "job/7/memory.stat": "inactive_file 9\ntotal_inactive_file 268435456\ntotal_active_file 0\nhierarchical_memory_limit 1073741824\n",
		}, gib - gib/4},
		{"v1, a limit above it that is not seen", map[string]string{
			"proc/self/cgroup": "4:memory:/\n", "proc/self/mountinfo": v1mount,
			v1 + "memory.limit_in_bytes": "9223372036854771712\n", v1 + "memory.usage_in_bytes": "0\n",
			v1 + "memory.stat": "hierarchical_memory_limit 1073741824\n",
		}, gib},
		{"both", map[string]string{
			"proc/self/cgroup": "4:memory:/a\n0::/\n", "proc/self/mountinfo": v1mount + "38 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			v1 + "a/memory.limit_in_bytes": "1073741824\n", v1 + "a/memory.usage_in_bytes": "0\n",
		}, gib},
		{"garbage", map[string]string{
			"proc/self/cgroup": "::\nx\n0::/a\n", "proc/self/mountinfo": "- \n1 2 - cgroup2\n" + v2mount,
			v2 + "a/memory.max": "-1\n", v2 + "a/memory.current": "lots\n", v2 + "a/memory.stat": "\ninactive_file\n",
		}, 8 * gib},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree(t, c.files)
			require.NoError(t, os.MkdirAll(root+"/proc", 0o700))
			require.NoError(t, os.WriteFile(root+"/proc/meminfo", []byte("MemTotal: 1 kB\nMemAvailable:    8388608 kB\n"), 0o600))
			free, err := freeMemory(root)
			require.NoError(t, err)
			require.Equal(t, c.want, free)
		})
	}
	_, err := freeMemory(t.TempDir())
	require.Error(t, err, "there is no meminfo")
}

// TestFreeMemoryHere: there is some, and a real memory cgroup with a limit counts.
func TestFreeMemoryHere(t *testing.T) {
	free, err := FreeMemory()
	require.NoError(t, err)
	require.NotZero(t, free)
	if !testenv.All() {
		return
	}
	for _, g := range groups("", "memory") {
		dir := filepath.Join(g.dir, "efactor-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o700) != nil {
			continue
		}
		defer os.Remove(dir)
		limit := "memory.limit_in_bytes"
		if g.v2 {
			limit = "memory.max"
		}
		if os.WriteFile(filepath.Join(dir, limit), []byte("209715200"), 0o600) != nil {
			continue // without the memory controller
		}
		require.LessOrEqual(t, g.memoryLeft(dir), uint64(200<<20))
		require.Greater(t, g.memoryLeft(dir), uint64(100<<20))
		return
	}
	t.Skipf("no memory cgroup can be made here: %s", strings.TrimSpace(func() string { b, _ := os.ReadFile("/proc/self/cgroup"); return string(b) }()))
}

const (
	v2cpu = "sys/fs/cgroup/"
	v1cpu = "sys/fs/cgroup/cpu/"
)

// TestCPULimit: the least quota of the cpu cgroups of both versions, the process's own and those above it.
func TestCPULimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64
	}{
		{"no cgroup", nil, math.Inf(1)},
		{"v2, none limited", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2mount,
			v2cpu + "a/b/cpu.max": "max 100000\n", v2cpu + "a/cpu.max": "max 100000\n",
		}, math.Inf(1)},
		{"v2, half a CPU", map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2mount, v2cpu + "a/cpu.max": "50000 100000\n",
		}, 0.5},
		{"v2, the limit above it is lower", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": v2mount,
			v2cpu + "a/b/cpu.max": "400000 100000\n", v2cpu + "a/cpu.max": "15000 10000\n",
		}, 1.5},
		{"v2, a container that is mounted as the root", map[string]string{
			"proc/self/cgroup":    "0::/docker/1234\n",
			"proc/self/mountinfo": "31 23 0:28 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			v2cpu + "cpu.max":     "200000 100000\n",
		}, 2},
		{"v1", map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/x/y\n4:memory:/\n", "proc/self/mountinfo": v1mount,
			v1cpu + "x/y/cpu.cfs_quota_us": "50000\n", v1cpu + "x/y/cpu.cfs_period_us": "100000\n",
		}, 0.5},
		{"v1, the limit above it alone", map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/x/y\n", "proc/self/mountinfo": v1mount,
			v1cpu + "x/y/cpu.cfs_quota_us": "-1\n", v1cpu + "x/y/cpu.cfs_period_us": "100000\n",
			v1cpu + "x/cpu.cfs_quota_us": "300000\n", v1cpu + "x/cpu.cfs_period_us": "100000\n",
		}, 3},
		{"both", map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/x\n0::/x\n", "proc/self/mountinfo": v1mount + "38 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			v1cpu + "x/cpu.cfs_quota_us": "100000\n", v1cpu + "x/cpu.cfs_period_us": "100000\n",
		}, 1},
		{"garbage", map[string]string{
			"proc/self/cgroup": "::\nx\n0::/a/b/c/d\n", "proc/self/mountinfo": "- \n1 2 - cgroup2\n" + v2mount,
			v2cpu + "a/cpu.max": "NaN 0\n", v2cpu + "a/b/cpu.max": "100000", v2cpu + "a/b/c/cpu.max": "-5 100000", v2cpu + "a/b/c/d/cpu.max": "5 0",
		}, math.Inf(1)},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, cpuLimit(tree(t, c.files))) })
	}
}

// TestCPULimitHere: there is some time for this process, and the quota of a real cpu cgroup counts.
func TestCPULimitHere(t *testing.T) {
	require.Positive(t, CPULimit())
	if !testenv.All() {
		return
	}
	for _, g := range groups("", "cpu") {
		dir := filepath.Join(g.dir, "efactor-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o700) != nil {
			continue
		}
		defer os.Remove(dir)
		file, text := "cpu.cfs_quota_us", "50000" // the period is 100 ms
		if g.v2 {
			file, text = "cpu.max", "50000 100000"
		}
		if os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600) != nil {
			continue // without the cpu controller
		}
		require.Equal(t, 0.5, quota(dir))
		return
	}
	t.Skip("no cpu cgroup can be made here")
}

// TestRunningThreads: the host's own file has a number, and what is no such file has none.
func TestRunningThreads(t *testing.T) {
	for text, want := range map[string]int{"0.00 0.01 0.05 12/345 6789\n": 12, "1.00 2.00 3.00 1/2 3": 1} {
		n, ok := runningThreads([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", "1 2 3", "1 2 3 /4", "1 2 3 x/4", "1 2 3 99999999999999999999/4"} {
		_, ok := runningThreads([]byte(text))
		require.False(t, ok, text)
	}
	if _, known := Crowded(); wholeHost() {
		require.True(t, known)
	}
}
