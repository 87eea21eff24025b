package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The kernel lets a process open what another one has open if it may read its memory
// (ptrace_may_access): the other one must be dumpable, and have no capability that the first
// lacks. A process that may be denied keeps its memory in files; one that cannot know, since it
// changes later or a security module decides, is unreachable, and those that try say why.

// errHidden: the kernel does not let this process open what another one has open.
var errHidden = errors.New("shm: the kernel denies access to the memory of a process of this user: since then it is not dumpable " +
	"(prctl), or it has capabilities that this one lacks, or a security module forbids; use Config.Files on both sides")

// hidden adds errHidden to an error if that is the reason.
func hidden(err error) error {
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
