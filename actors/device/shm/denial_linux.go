package shm

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
)

// errDenied: the kernel denies access to another process's memory.
var errDenied = errors.New("shm: no access to the memory of another process")

// denied is errDenied for a process, with the reason. The same request may be
// allowed to another process.
func denied(pid int, err error) error { return fmt.Errorf("%w: process %d: %w", errDenied, pid, err) }

// denials counts the requests that ended with errDenied.
type denials struct {
	log *slog.Logger

	mu    sync.Mutex
	count uint64
	first error
}

// add counts a denial, and logs what happened and an explanation at the first one.
func (d *denials) add(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count++; d.count > 1 {
		return
	}
	if d.first = err; errors.Is(err, errDenied) {
		d.first = fmt.Errorf("%w%s", err, ptraceScope())
	}
	d.log.Warn(what, "error", d.first)
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
