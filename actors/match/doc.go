// Package match decides which receive gets which message: the posted receives
// and the unexpected messages of one endpoint, and the rules that pair them.
//
//	a message arrives                    a receive is posted
//	       |                                     |
//	    Arrive ---- hit: *Recv               Post ---- hit: *Msg
//	       | miss                                | miss
//	    AddMsg --> unexpected messages       posted receives
//
// The rules are libfabric's (fi_msg, fi_tagged, FI_DIRECTED_RECV, FI_PEEK):
// untagged and tagged messages never meet; tags match when (sent|ignore) ==
// (posted|ignore); a receive names a source or takes any; the oldest posted
// receive that matches wins among all posted ones, and likewise the oldest
// message by arrival. An endpoint without directed receive posts [AnySource].
//
// # How
//
// Posted receives are kept in order of posting, and Arrive walks the first few. If
// none of those takes the message and there are more, all receives are filed by class
// and key. Later ones are not, until an arrival that no filed one takes finds many of
// them. So a long queue costs a look at the filed ones and a few steps, a receive that
// is posted for the next message is not filed at all, and a short queue costs nothing.
//
// Receives of one [Kind], one ignore mask, with or without a source, are a
// class. Within a class, matching is equality of (tag &^ ignore, source), its key, which
// one hash table of all classes finds. Arrive looks for the key of each class that has
// receives and takes the lowest stamp: its cost grows with the number of classes in use,
// not with receives.
//
// Unexpected messages are kept in order of arrival. Post and Find walk the first
// few; a class that had to walk further gets an index of all messages, which is
// maintained from then on and dropped when it was not used for many arrivals. So a
// long queue costs one probe, and a short one costs its arrivals nothing.
//
// # Bounds
//
// There are at most 64 classes of tagged receives at a time; receives of further
// ones share one list that Arrive scans, and a class without receives is replaced
// by a new one. At most 16 classes have an index; a message costs at most that many
// index entries of some 80 bytes, the first of which is part of [Msg].
//
// Tags of messages come from peers, which may be hostile and choose tags with equal
// hashes. That costs time only, never a wrong match: an operation then takes up to
// as many steps as messages with different tags wait. [NewSeeded] with a secret
// seed makes such tags hard to find.
//
// # Invariants
//
//   - No clock, goroutine, lock or randomness: equal calls give equal results,
//     with any seed. One goroutine at a time.
//   - Recv and Msg are embedded in the caller's structs; nothing is allocated per
//     operation once tables and the pool of index entries have grown to their size.
//   - No posted receive matches an unexpected message, as long as a caller lets
//     AddMsg follow only a missed Arrive, and offers rekeyed messages again.
//
// Start reading at [Table.Arrive] and [Table.Post], in table.go, which also has the classes and
// the two spaces of a table. recv.go has the posted receives, unexpected.go the messages and
// index.go the index of those; match.go has the terms, match.go the walk over a table that
// changes meanwhile.
package match
