package shm

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The kernel lets a process open what another one has open if it may read its memory
// (ptrace_may_access): the other one must be dumpable, and have no capability that the first
// lacks. A process that may be denied keeps its memory in files; one that cannot know, since it
// changes later or a security module decides, is unreachable, and those that try say why.

// errHidden: the kernel does not let this process open what another one has open.
var errHidden = errors.New("shm: the kernel denies access to the memory of a process of this user: since then it is not dumpable " +
	"(prctl), or it has capabilities that this one lacks, or a security module forbids; use Config.Files on both sides")

// withPtrace adds errHidden to an error if that is the reason.
func withPtrace(err error) error {
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: %w", errHidden, err)
	}
	return err
}

// hides reports whether the kernel may deny others what this process has open.
func hides() bool {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return mayHide(dumpable, err, os.Geteuid(), capabilities())
}

// mayHide is hides, of what the kernel says. Processes of root usually have the same
// capabilities, and another GID if not (gidWithin).
func mayHide(dumpable int, err error, euid int, caps uint64) bool {
	return err != nil || dumpable != 1 || euid != 0 && caps != 0
}

// capabilities are those that this process may have; none if the kernel does not say.
func capabilities() uint64 {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return 0
	}
	return uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted)
}

// rootCapabilities are capabilities of a process of root; others keep their memory in files if
// they have any.
func rootCapabilities() uint64 {
	if os.Geteuid() != 0 {
		return 0
	}
	return capabilities()
}

// errDenied: the kernel denies access to another process's memory.
var errDenied = errors.New("shm: no access to the memory of another process")

// denied is errDenied for a process, with the reason. The same request may be
// allowed to another process.
func denied(pid int, err error) error { return fmt.Errorf("%w: process %d: %w", errDenied, pid, err) }

// ptraceDenials counts the requests that ended since this process has no access to the other one.
type ptraceDenials struct {
	log *slog.Logger

	mu     sync.Mutex
	count  uint64
	first  error
	logged []string
}

// add counts a denial, and logs what happened and an explanation, the first time that it does.
func (d *ptraceDenials) add(what string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	if slices.Contains(d.logged, what) {
		return
	}
	d.logged = append(d.logged, what)
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

func (d *ptraceDenials) read() (count uint64, first error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count, d.first
}
