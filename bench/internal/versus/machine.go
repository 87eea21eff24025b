package versus

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine holds the conditions of a measurement.
type Machine struct {
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	Profile string `json:"profile"` // that the build was guided by
}

// String gives two lines of comment.
func (m Machine) String() string {
	return fmt.Sprintf("# %s, %s, %d cores\n# commit %s, %s, profile %s", m.Kernel, m.CPU, m.Cores, m.Commit, m.Go, m.Profile)
}

// Here is the machine and the build that the program is.
func Here() Machine {
	return Machine{
		Kernel: kernel(), CPU: cpu(), Cores: runtime.NumCPU(), Commit: commit(), Go: runtime.Version(), Profile: guide(),
	}
}

// Load is the average of the last minute, by the kernel's count.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	first, _, ok := strings.Cut(string(b), " ")
	if err != nil || !ok {
		return "unknown"
	}
	return first
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown kernel"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

func cpu() string {
	f, err := os.Open("/proc/cpuinfo")
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			key, value, _ := strings.Cut(lines.Text(), ":")
			if strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}

// guide is the profile by which the compiler inlined.
func guide() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-pgo" {
				return filepath.Base(s.Value)
			}
		}
	}
	return "none"
}

// commit is the one that the program was built from, or the one that is checked out
// where it runs.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		revision, dirty := "", ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
		if revision != "" {
			return revision + dirty
		}
	}
	out, err := exec.Command("git", "describe", "--always", "--dirty=+changes", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
