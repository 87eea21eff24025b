package shm

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
)

// errDenied: the kernel denies access to another process's memory.
var errDenied = errors.New("shm: no access to the memory of another process")

// denied is errDenied for a process, with the reason. The same request may be
// allowed to another process.
func denied(pid int, err error) error { return fmt.Errorf("%w: process %d: %w", errDenied, pid, err) }

// denials counts the requests that ended since this process has no access to the other one.
type denials struct {
	log *slog.Logger

	mu    sync.Mutex
	count uint64
	first error
	told  []string
}

// add counts a denial, and logs what happened and an explanation, the first time that it does.
func (d *denials) add(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	if slices.Contains(d.told, what) {
		return
	}
	d.told = append(d.told, what)
	if errors.Is(err, errDenied) {
		err = fmt.Errorf("%w%s", err, ptraceScope())
	}
	if d.first == nil {
		d.first = err
	}
	d.log.Warn(what, "error", err)
}

// ptraceScope describes the setting of the Yama security module.
func ptraceScope() string {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	scope := strings.TrimSpace(string(b))
	if err != nil || scope == "0" {
		return " (it belongs to another user, or is not dumpable, or a seccomp filter forbids)"
	}
	return fmt.Sprintf(" (kernel.yama.ptrace_scope is %s: only its ancestors may, or whom it has named with PR_SET_PTRACER)", scope)
}

func (d *denials) read() (count uint64, first error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count, d.first
}
