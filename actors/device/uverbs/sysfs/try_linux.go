package sysfs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Try opens the device's file as a driver does, and closes it again. An error is a
// Refusal that says what to do.
func (h Host) Try(n *NIC) error {
	fd, err := unix.Open(n.Uverbs, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return n.Explain(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return n.Explain(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev != unix.Mkdev(n.Major, n.Minor) {
		return &Refusal{
			Device: n.Uverbs, What: fmt.Sprintf("it is not the device %d:%d that sysfs names", n.Major, n.Minor),
			Do: "make the file anew (udevadm trigger), or restart the container that has an old one", Err: ErrNoDevice,
		}
	}
	return nil
}

// Memlock refuses with what to do if this process may lock less than need bytes of
// memory, which is what registering it takes.
func (h Host) Memlock(need uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil {
		return fmt.Errorf("sysfs: limit of locked memory: %w", err)
	}
	return memlock(l.Cur, l.Cur == unix.RLIM_INFINITY || mayLock(), need)
}

// mayLock reports whether the limit does not hold for this process.
func mayLock() bool {
	var data [2]unix.CapUserData // of version 3: 64 bits
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return data[unix.CAP_IPC_LOCK/32].Effective&(1<<(unix.CAP_IPC_LOCK%32)) != 0
}

// cpus are those that this process may run on.
func cpus() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var list []int
	for i := 0; len(list) < set.Count(); i++ {
		if set.IsSet(i) {
			list = append(list, i)
		}
	}
	return list
}
