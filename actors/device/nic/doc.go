// Package nic is the core that every software device shares: one queue pair with
// its completion queue, as EFA has it, over a [Carrier] that brings the bytes
// across.
//
//	           device.QP
//	+-------------------------------+
//	| QP: send queue accounting,    |   one shard, no locks
//	| completions, RNR retries,     |
//	| address handles, slot checks, |
//	| local keys of RDMA            |
//	+-------------------------------+
//	           Carrier
//	| sim, shm, tcp, the emulator   |   what crosses between shards
//
// A carrier answers Send at once (the packet lies in a slot of the receiver, or was
// refused) or returns [Pending] and completes the send from its Poll. It owns
// posted receives, since only it knows which process may access them: in shared
// memory for shm. Carriers inside one process can use [Inbox], which also has the
// Q_Key check, late statuses, arming and notification.
//
// [Regions] is the table of a device's memory regions: their keys, addresses and
// rights, and the holds that keep memory in place during a copy. A carrier inside one
// process leaves the other side's part of RDMA to Inbox.RDMA. A region may stand for
// memory of another process (Memory.Foreign): it has a key, rights and a lifetime
// here, but no bytes, so requests reach it only through the driver.
//
// The carrier's reports are checked here: a slot that is not posted, a length
// beyond the MTU, or a send that is not outstanding is counted and dropped, so
// memory that others can write to never makes the upper layers fail.
//
// Invariants: at most Depth sends are outstanding until polled; each accepted send
// completes once; a packet is sent 1+RNRRetry times at most before it ends with
// StatusRNR; after Close nothing completes. The memory of a region is accessed only
// under a hold, and Region.Close returns when there is none.
//
// Start reading at carrier.go, then qp.go; send.go posts, poll.go completes and receives,
// retry.go sends again after RNR, ah.go has the address handles. inbox.go is the receiving side
// for carriers inside one process. For memory start at regions.go, then window.go.
package nic
