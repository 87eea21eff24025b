package netlab

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// nsDir is where ip keeps the names of namespaces.
const nsDir = "/run/netns"

var labs atomic.Uint32

// prefix begins the names of a lab's namespaces: efactor-<pid>-<start>-<lab>-.
func prefix() string {
	pid := os.Getpid()
	return fmt.Sprintf("efactor-%d-%d-%d-", pid, startOf(pid), labs.Add(1))
}

// startOf is when a process began, in clock ticks since boot; 0: there is none.
func startOf(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may have spaces and parentheses of its own.
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return 0
	}
	n, err := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// sweep removes the namespaces of processes that are gone. Another process that does
// the same at once is no harm.
func sweep() {
	entries, err := os.ReadDir(nsDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if stale(e.Name()) {
			_ = run("", "ip", "netns", "del", e.Name())
		}
	}
}

func stale(name string) bool {
	f := strings.Split(name, "-")
	if len(f) != 5 || f[0] != "efactor" {
		return false
	}
	pid, err := strconv.Atoi(f[1])
	if err != nil || pid <= 0 {
		return false
	}
	start, err := strconv.ParseUint(f[2], 10, 64)
	return err == nil && start != startOf(pid)
}
