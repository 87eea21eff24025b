// Package kernel is the uverbs half of an emulated EFA device: it implements
// ioctl(2) on /dev/infiniband/uverbsN, with Linux's errnos ("uverbs" in comments).
// It does not know where calls come from: package trap brings those of other
// processes, package inproc those of this one.
//
//	front-end --- Task ---> Context.Ioctl --> frame.go   header, attributes, methods
//	                                          write.go   commands of the old interface
//	                                          table.go   handles
//	                                          query.go pd.go mr.go ah.go cq.go qp.go
//	                                             |
//	memfd, pipes <--- arena.go, eventfile.go <---+---> engine.Engine
//
// A Context is one open of the device file. Its file is a memfd: mmap(2) of it is
// the kernel's own, the keys that commands return are offsets in it, and what the
// kernel would refuse (a wrong length, MAP_PRIVATE) can only be found afterwards:
// strict.go looks at the mappings when a queue is destroyed. inproc does refuse it.
//
// Start reading at frame.go.
//
// Differences from a kernel:
//
//   - Memory of a region isn't pinned; registering looks whether it is mapped
//     (EFAULT). RLIMIT_MEMLOCK is not looked at.
//   - No process is privileged: a Q_Key with its highest bit is refused to root,
//     too.
//   - A dma-buf is always refused: EOPNOTSUPP.
//   - A new Q_Key is refused from RTR on: EOPNOTSUPP. SQD doesn't stop the send queue.
//   - A completion channel at its end reads 0 bytes, where the kernel says EIO, and
//     a read of less than 8 bytes gets a part of an event.
package kernel
