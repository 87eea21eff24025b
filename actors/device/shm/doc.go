// Package shm is the device for processes of one host and one user: packets go
// straight into the receiver's memory, without the kernel.
//
// A fabric is a directory in shared memory, a queue pair one file in it: its
// segment, which every sender maps as well.
//
//	+--------+---------+---------+---------+------------+--------------+------------+
//	| header | control | senders | windows | posts, 8 B | cells, 128 B | slots, MTU |
//	+--------+---------+---------+---------+------------+--------------+------------+
//	                                        ^            ^              ^
//	receiver: posts a slot -----------------+            |              |
//	sender: claims the post by CAS, fills ---------------+ up to 120 B, +- or more
//	        and stores ready in the cell
//	receiver: polls the cell at head, copies what is in it to the slot
//
// # Death of processes
//
// Every word that two sides write changes by one CAS or one store that says all of
// it (layout.go), so there is no instruction at which a sender's death stops others:
// it leaves at most one claimed post, which the receiver puts aside and takes back
// when it knows of the death. Each step is one access, and an ordinary packet takes them in a
// row (both in sender.go); a test runs every interleaving of them with a death after each.
//
// Liveness is a lock on the segment file that the kernel drops with its holder,
// never a process id (file_linux.go). Each device has the bells of the queue pairs that it
// communicates with in an epoll descriptor (watch_linux.go): the end of a bell's only reader is news
// there (EPOLLERR), and then the lock is asked until it is free. The death is reported, as OpGone after the
// last packet of the dead, within 200 ms on a machine that schedules. Where a child process holds the bell open
// there is no news: Pulse, which a probe calls, asks the lock, too. A process that finds a lock free
// removes the files and frees claims in its own segments. Until then sends to a dead queue pair still
// end well, as if it had died later. One that is closed in order is reported as such, in the same way.
//
// A device has no timer set unless it has just heard of a death. A process that enters a
// sender table, or doubts that the owner runs, counts up a word of the segment and rings; the owner
// answers (Pulse) and looks at its table. A stopped process is alive: it keeps the slots that it has claimed, and sends to it go on.
//
// # Memory regions
//
// Memory of Alloc is a file that others map, so that an RDMA request is one copy inside
// the requester's PostSend; a lease in shared memory keeps the owner informed, and
// region.go says which side may die when. What a queue pair lends (QP.Lend) stands in its
// segment, window_linux.go. Memory of Register lies in one process: MR.Remote is false. Memory of
// another program (RegisterForeign) is copied by the kernel, process_linux.go; the region's file
// names it.
//
// # Trust
//
// Processes of the same user trust each other: the directory has mode 0700 and its owner is
// checked. They are defended against bugs and death, not malice. The receiver relies only on
// its own record of posted slots; words are read once, then checked, and a place that makes no
// sense is posted to the device again. Wrong hints are corrected. Memory is sealed, so that
// nobody can cut it under those that have it mapped (sealed_linux.go). In files (Config.Files,
// ptrace_linux.go, maxSealed) it can be cut: this process survives, and ends what it had there
// alone (sigbus_linux.go), unless a packet is being read at that moment, or a region of its own is cut
// and touched: by the application, another device, or as the bytes of a request.
//
// # Differences from a plain queue
//
//   - The receiver waits on a line that senders touch once, with the packet in it.
//     If the posts lay there, each claim would transfer it once more.
//   - The order of arrival is that of the claims, except for late publishers: there
//     is no second queue of ready packets, and no index to be advanced.
//   - Consuming writes nothing; posting does, with a store that need not wait for
//     its line (sys.StoreRelease). Neighbouring posts lie in different lines, and both
//     sides prefetch the line that they need next.
//   - A receiver with nothing at head reads its post only now and then (patience):
//     reading takes the post's line away from the next sender.
//   - All processes of a directory and a namespace of process numbers have one GID,
//     unless Config.GID makes one a host of its own. Queue pair numbers are the
//     directory's, and find a segment; the GID in its header must match.
//
// The memory of a closed queue pair stays addressable, without its contents, until
// the device is closed. A segment allocates its memory when it is made, 2.3 MB with
// the default depth and MTU, so too little memory is ErrNoMemory and not a SIGBUS.
//
// Start reading at layout.go, then sender.go and receiver.go for the ring; qp_linux.go, link_linux.go
// and watch_linux.go for the queue pair, its destinations and deaths; segment_linux.go and dir_linux.go
// for files; region.go, region_linux.go and mapping_linux.go for the two sides of RDMA.
package shm
