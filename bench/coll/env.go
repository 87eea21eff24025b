package main

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

// environment is what a figure means nothing without.
type environment struct {
	Kernel   string `json:"kernel"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Device   string `json:"device"`
	Progress string `json:"progress"`
	Launcher string `json:"launcher"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Profile  string `json:"profile"` // that the build was guided by
	Ranks    int    `json:"ranks"`
}

// machine is the part that does not depend on the job.
func (e environment) machine() string {
	return fmt.Sprintf("# %s, %s, %d cores\n# commit %s, %s, profile %s", e.Kernel, e.CPU, e.Cores, e.Commit, e.Go, e.Profile)
}

func (e environment) String() string {
	return fmt.Sprintf("%s\n# %d ranks, device %s, progress %s\n# launcher %s", e.machine(), e.Ranks, e.Device, e.Progress, e.Launcher)
}

// here fills in what does not depend on the job.
func here() environment {
	return environment{
		Kernel: kernel(), CPU: cpu(), Cores: runtime.NumCPU(), Commit: commit(), Go: runtime.Version(), Profile: guide(),
	}
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

// guide is the file that told the compiler what to inline.
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
