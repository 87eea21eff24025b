// Package sysfs finds the EFA devices of this host, without opening them: [Host.List]
// reads what the kernel says of them below /sys, [Sort] puts the best first.
//
//	/sys/class/infiniband_verbs/uverbs0/ibdev  --> its name, NAME below
//	/sys/class/infiniband/NAME/ports/1/...     --> GID, state, link speed
//	/sys/class/infiniband/NAME/device/...      --> the PCI function: ids, driver, NUMA node
//	/dev/infiniband/uverbs0                    --> what opens it: Host.Try
//
// What sysfs does not know (the MTU, depths of queues, RDMA) only the opened device
// says; a driver answers that by a [Query].
//
// A device that cannot be used is not an error of the list: it is in [Found.Skipped] with
// the reason, or refused by Host.Try, by an error of one line that says what to do
// ([Refusal]).
//
// Nothing that is read is trusted. The tree may be another one than the kernel's
// (SYSFS_PATH, a container's mounts): reads are bounded, do not leave the root by links,
// and do not wait at a FIFO; names are checked before they are parts of a path.
package sysfs
