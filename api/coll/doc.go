// Package coll has the collectives of MPI for Go programs that talk by package
// efa: Barrier, Bcast, Reduce, Allreduce, Gather, Scatter, Allgather, Alltoall (and
// their v forms), ReduceScatter, Scan and Exscan, over slices of any element that
// has no pointers in it, for any number of ranks and any length.
//
//	c, err := coll.New(coll.Config{Endpoint: ep, Rank: rank, Peers: peers})
//	defer c.Close(ctx)
//	err = coll.Allreduce(ctx, c, in, out, coll.Sum)
//	r, err := coll.Ibcast(ctx, c, buf, 0) // goes on beside
//	row, err := c.Split(ctx, rank/4, rank)
//	err = r.Wait(ctx)
//
// api/launch makes a Config for New under any launcher.
//
// # Algorithms
//
// Each collective has several; [Algorithms] lists them.
//
//	tree       binomial: log p rounds, everything in each; short Bcast, Reduce, Gather, Scatter
//	doubling   recursive doubling, Bruck, dissemination: log p rounds with partners 1, 2, 4... away
//	halving    Rabenseifner: reduce by halves, then gather by doubling; long reductions
//	ring       p-1 rounds with the neighbours, a part in each; long Allgather, Allreduce
//	pairwise   p-1 rounds, a partner in each; long Alltoall, ReduceScatter
//	chain      segments one after the other; long Bcast, Scan
//
// choose picks one by size and number of ranks. With Config.Tracer each collective is
// a span that names it, and has an event for each round; the operations of package
// efa are spans within it. [Use] forces one.
//
// Reductions are done in any order that pleases, but with [NonCommutative], and in Scan and
// Exscan, in that of the ranks. All ranks have the same result, to the bit. In place means that in and
// out are one slice, or one is this rank's part of the other; otherwise they must
// not overlap.
//
// # Groups
//
// Messages of a group carry its context id, which Split agrees upon so that no two
// groups with a rank in common have the same, and the sequence number that a
// collective takes when it is called: concurrent messages of several groups or
// non-blocking collectives do not mix. See tagOf.
//
// # When something fails
//
// A rank that meets an error (a dead rank, its context's end, an unexpected message, an
// operator that panics)
// informs all others, and all collectives of the group that are in progress or come
// later, on all ranks, return the same *[RankError], which names the rank at fault. That
// takes as long as package efa takes to notice a death (half a second over shared
// memory, at most twice PeerTimeout otherwise) and two messages more; no rank hangs. A rank
// that was cut off or stopped names itself: it can reach no other, or these tell it when it
// goes on. Of two ranks that lose each other each may name the other.
// Collectives that a rank has finished by then stay finished there. Other groups are not
// affected. Wrong arguments are reported before anything is sent, and fail nothing.
//
// After a failure buffers must be left alone until Close: other ranks may read them.
//
// # Memory
//
// Plain slices work everywhere. Slices of [Alloc] lie in memory that other ranks'
// devices read by themselves where they can, so that long messages are copied once;
// others go through a small window of such memory.
//
// Messages to a rank that is far behind wait after a few MiB (transport.go, mostPaced).
//
// Start reading at comm.go (a group), then
//
//	collectives.go  the functions for users, blocking and not, which check arguments
//	call.go         one collective, from its arguments to its end
//	algorithms.go   which algorithms there are, and which one is chosen
//	movement.go     algorithms that move data: Bcast, Gather, Scatter, Allgather, Alltoall, Barrier
//	reductions.go   algorithms that combine data: Reduce, Allreduce, ReduceScatter, Scan
//	transport.go    the messages of algorithms: tags, flows of long messages, pacing
//	revoke.go       failure of a group
//	family.go       what all groups of one New share
//	ranks.go        sets of ranks
//	op.go, buffers.go, memory.go  operators; elements and layouts; Alloc and temporary buffers
package coll
