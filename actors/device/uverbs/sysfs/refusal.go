package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/efactor/efactor/actors/errno"
)

// What a Refusal wraps.
var (
	ErrNoDevice   = fmt.Errorf("sysfs: no EFA device: %w", errno.ErrNoData)
	ErrPermission = fmt.Errorf("sysfs: %w", fs.ErrPermission)
	ErrMemlock    = errors.New("sysfs: too little memory may be locked")
	ErrKernel     = errors.New("sysfs: the kernel's interface is too old")
	ErrLimit      = fmt.Errorf("sysfs: the card has a limit that this program does not know: %w", errno.ErrNotSupported)
	ErrNoRoom     = fmt.Errorf("sysfs: the kernel or the card is full: %w", errno.ErrNoMemory)
	ErrPort       = fmt.Errorf("sysfs: the port is not active: %w", syscall.ENETDOWN)
)

// Refusal is why a device cannot be used, and what to do about it, in one line.
type Refusal struct {
	Device string // its name, or its file
	What   string // is wrong
	Do     string // against it
	Err    error  // one of the above
}

// Error has all three parts.
func (r *Refusal) Error() string { return r.Device + ": " + r.What + ": " + r.Do }

// Unwrap gives Err.
func (r *Refusal) Unwrap() error { return r.Err }

// Err is nil if there is a device. Otherwise it says why there is none: what is wrong
// with one that was skipped, or what a host needs to have one.
func (f *Found) Err() error {
	switch {
	case len(f.NICs) > 0:
		return nil
	case len(f.Skipped) > 0:
		return f.Skipped[0].Why
	}
	return &Refusal{
		Device: "efa", What: "this host has no EFA device",
		Do:  "start an instance of a type that has EFA with an interface of type efa, or use the device shm or tcp",
		Err: ErrNoDevice,
	}
}

func tooOld(dev, what string) *Refusal {
	return &Refusal{Device: dev, What: what, Do: "use Linux 6.1 or newer, or install Amazon's newer module efa", Err: ErrKernel}
}

// Explain makes a Refusal of an error that a call has met: of open(2) of the device's
// file, or of a command that a driver gives while it opens the device. It is err itself if there is nothing to say
// of it.
func (n *NIC) Explain(err error) error {
	r := &Refusal{Device: n.Uverbs}
	switch {
	case is(err, syscall.ENOENT):
		r.What, r.Err = "the file is missing", ErrNoDevice
		r.Do = "in a container pass it in (docker run --device " + n.Uverbs + ", on Kubernetes a resource vpc.amazonaws.com/efa), " +
			"else have udev make it (udevadm trigger)"
	case is(err, syscall.EACCES):
		r.What, r.Err = "permission denied", ErrPermission
		r.Do = "let the user read and write the file, by its group or a rule of udev"
	case is(err, syscall.EPERM):
		r.What, r.Err = "operation not permitted", ErrPermission
		r.Do = "in a container pass it in (docker run --device " + n.Uverbs + "); " +
			"where RDMA devices belong to network namespaces move it to this one (rdma dev set " + n.Name + " netns)"
	case is(err, syscall.ENXIO, syscall.ENODEV, syscall.EIO):
		r.What, r.Err = "the device is gone or has failed", ErrNoDevice
		r.Do = "look for efa in the kernel's log (dmesg)"
	case is(err, syscall.ENOTTY, syscall.ENOSYS, syscall.EPROTONOSUPPORT):
		return tooOld(n.Uverbs, "the kernel does not know the command: "+cause(err))
	case is(err, syscall.EOPNOTSUPP): // of the first command, by which a program declares what it heeds
		r.What, r.Err = "the card has a limit that this program does not declare: "+cause(err), ErrLimit
		r.Do = "use a newer release of efactor"
	case is(err, syscall.ENOMEM): // nothing was locked yet
		r.What, r.Err = "the kernel or the card has no room for one more program: "+cause(err), ErrNoRoom
		r.Do = "end other programs that use the card (each has a context and a protection domain there), or use another card"
	case is(err, syscall.ENETDOWN):
		r.What, r.Err = "the port is not active", ErrPort
		r.Do = "see that the interface is attached to the instance and up, or look for efa in the kernel's log (dmesg)"
	default:
		return err
	}
	return r
}

func is(err error, numbers ...syscall.Errno) bool {
	for _, n := range numbers {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

const raise = "raise it (ulimit -l unlimited, LimitMEMLOCK=infinity of systemd, docker run --ulimit memlock=-1), " +
	"or give the program CAP_IPC_LOCK"

// memlock refuses a limit in bytes that is less than need.
func memlock(limit uint64, unlimited bool, need uint64) error {
	if unlimited || limit >= need {
		return nil
	}
	return &Refusal{
		Device: "RLIMIT_MEMLOCK", What: fmt.Sprintf("%d KiB of memory may be locked, an endpoint locks %d KiB", limit>>10, need>>10),
		Do: raise, Err: ErrMemlock,
	}
}

// cause is the text of an error on one line.
func cause(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
