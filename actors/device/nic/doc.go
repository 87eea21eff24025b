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
// A carrier answers Send at once (the packet lies in a slot of the receiver, or
// was refused) or says [Pending] and completes the send from its Poll. It owns
// posted receives, since only it knows who may touch them: in shared memory for
// shm; for carriers inside one process [Inbox] is a ready one, together with the
// Q_Key check, late statuses, arming and notification.
//
// [Regions] is the table of a device's memory regions: their keys, addresses and
// rights, and the holds that keep memory in place while somebody copies. A carrier
// inside one process leaves the other side's part of RDMA to Inbox.RDMA. A region may
// stand for memory of another process (Memory.Foreign): it has a key, rights and
// a life here, but no bytes, so no request finds it but by the driver's own way.
//
// What a carrier reports is checked here: a slot that is not posted, a length
// beyond the MTU, a send that is not outstanding are counted and dropped, so
// memory that others can write to never makes the upper layers fail.
//
// Invariants: at most Depth sends are outstanding until polled; each accepted
// send completes once; a packet is sent 1+RNRRetry times at most before it ends
// with StatusRNR; after Close nothing completes. The memory of a region is touched
// only by who holds it, and Region.Close returns when nobody does.
//
// Start reading at carrier.go, then qp.go; for memory at regions.go.
package nic
