//go:build linux && (amd64 || arm64)

package trap

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/seccomp"
)

// Roles of this executable, by its name as it is started.
const (
	guardRole  = "efaemu-guard"
	launchRole = "efaemu-launch"
	probeRole  = "efaemu-probe"
)

// The roles stay on the thread that the process began with: the parent-death signal
// and yama's permission belong to that thread.
func init() {
	if isRole() {
		runtime.LockOSThread()
	}
}

func isRole() bool {
	if len(os.Args) == 0 {
		return false
	}
	switch os.Args[0] {
	case guardRole, launchRole, probeRole:
		return true
	}
	return false
}

// Main plays a role if this process was started by [Run] for one, and then does
// not return. A program that calls Run calls Main before anything else.
func Main() {
	if !isRole() {
		return
	}
	switch args := os.Args[1:]; os.Args[0] {
	case guardRole:
		os.Exit(guardMain(args))
	case launchRole:
		os.Exit(launchMain(args))
	case probeRole:
		os.Exit(probeMain())
	}
}

// Exit statuses of a run that did not reach its program, as shells have them.
const (
	statusBroken   = 125 // the supervisor's own failure
	statusCannot   = 126 // the program cannot be executed
	statusNotFound = 127
)

// launchMain installs the filter and becomes the program. A failure is a message
// to the supervisor, and so is the listener.
func launchMain(args []string) int {
	fds, args, err := take(args, 1)
	if err != nil || len(args) < 3 {
		return statusBroken
	}
	ctl := fds[0]
	err = launch(ctl, args[0] == strictArg, args[1], args[2:])
	if sendmsg(ctl, []byte(err.Error()), nil) != nil {
		return statusBroken
	}
	return statusCannot
}

// strictArg selects the strict filter.
const strictArg = "strict"

// launch does not return if all goes well. From the installation of the filter on this thread must make
// no call that is trapped before the supervisor has the listener.
func launch(ctl int, strict bool, path string, argv []string) error {
	env := os.Environ()
	// Peers' devices read and write registered memory; without yama there is
	// nothing to permit (EINVAL).
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
	fd, err := seccomp.InstallOnThread(filter(strict))
	if err != nil {
		return explain(err)
	}
	if err := sendmsg(ctl, []byte(listenerMessage), unix.UnixRights(fd)); err != nil {
		return fmt.Errorf("send the listener: %w", err)
	}
	if err := unix.Close(fd); err != nil {
		return err
	}
	return fmt.Errorf("%s%s: %w", execMessage, path, syscall.Exec(path, argv, env))
}

// Prefixes of the launcher's messages.
const (
	listenerMessage = "listener"
	execMessage     = "cannot run "
)

// explain says in one line why the filter was refused.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EBUSY):
		return errors.New("something else supervises this process by seccomp already (another efaemu, or a container runtime), and there can be only one")
	case errors.Is(err, unix.EINVAL):
		return errors.New("the kernel has no seccomp notification with WAIT_KILLABLE_RECV (Linux 5.19)")
	}
	return fmt.Errorf("seccomp: %w", err)
}
