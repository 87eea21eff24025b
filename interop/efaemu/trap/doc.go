// Package trap gives unmodified programs an EFA device: it runs a program under a
// seccomp filter that hands the few system calls that reach a device to this
// process, the supervisor (user notification, seccomp_unotify(2)).
//
//	supervisor ----------- guard ----------- program, its children ...
//	   |  ^    life socket       fork, exec        |
//	   |  |                                        | openat, stat, ioctl 0xc0181b01
//	   |  +--------------- listener ---------------+
//	   +--> Device.Open, File.Ioctl, Close
//
// The device file is a memfd: offsets in it are the keys of the kernel's mmap
// interface, so that mmap, munmap, close, dup, fork and exec need no trap. The
// program gets a second open file of it; an inotify watch reports when the
// program's last descriptor and mapping of that are gone, for any reason
// (sessions.go).
//
// # Processes
//
// The supervisor starts itself again twice. The guard is the program's parent: it
// reaps the program's children, and kills all of it when the supervisor dies, since
// calls without an answer fail with ENOSYS. The launcher installs the filter on
// itself, sends the listener to the supervisor and executes the program. [Main]
// plays these roles and must come first in main.
//
// # What is trapped
//
// Opening and stat by the path of the device, fstat and ioctl of its descriptors.
// A call for anything else goes on in the kernel as if nothing had been. The filter
// refuses netlink sockets of RDMA by itself, for the list of devices to come from
// the sysfs tree that SYSFS_PATH names. System calls of a foreign architecture (i386
// and x32 on amd64, arm on arm64) are let through: such programs run, and find no
// device.
//
// This is no sandbox. Paths and descriptors are looked at while the program could
// change them, which may make it miss the device, and never more.
//
// Start reading at run.go, then launch.go and guard.go for the processes, serve.go
// for the calls.
package trap
