// Package peer is one remote endpoint as an actor: HANDSHAKE both ways (§2), the
// order of messages by msg_id in both directions (§3.2), the reorder window, RNR
// and back-off, and the watch over its life.
//
// Around the actor: [Link] is what operations may know of their peer, written by
// the peer alone and read on the same shard; [Turn] is an operation's place in
// the line for a msg_id; [Packet] is a received packet, parsed.
//
//	device --Arrived--> Peer --Arrive--> endpoint (matcher) --> rxe
//	                    Peer --Deliver--> txe or rxe in progress
//	endpoint --Submit--> Peer --Grant--> txe --post--> device
//	device --SendProblem--> Peer (resend, back-off, or SendFailed to the owner)
//
// Start reading at peer.go: the actor and its message switch. Then:
//
//	link.go       Link, its members, and its snapshot
//	env.go        what all peers of an endpoint share, its counters
//	messages.go   what peers, operations and the endpoint tell each other
//	admit.go      the line of operations, and msg_ids
//	fence.go      fences and orders among operations
//	rnr.go        RNR, back-off, packets that fail
//	recv.go       packets as they come, aborted messages
//	packet.go     a packet's memory and its parsing
//	window.go     the reorder window; unordered.go: a window without order
//	handshake.go  HANDSHAKE, and the check of a connid
//	life.go       the watch, failure, return, eviction
//	pending.go    control packets that wait for a failed peer's return, and orphans
//	memory.go     accounting of unexpected messages, holding senders back
//	multipath.go  further ways to the peer's host
//	errors.go     causes of an end
//
// The pure parts (window, backoff, memory, parsing, orders) have tests here. The rest is proved
// by scenarios of actors/endpoint, in its testdata:
//
//	handshake*, family*, constant_header*, homogeneous, headerless*, self  HANDSHAKE
//	order*, unordered, queue_full, fence*                                 the line and the orders
//	rnr_*, packet_failed, send_failed*, post_refused*, receipt_cut        RNR and failing packets
//	bad_*, malformed, medium_lies, peer_error_*, untold, read_nack*       packets and aborts
//	death_*, no_answer, close_owed, spans_peer_restart                    failure and return
//	reincarnation*, stranger_trial*                                       the check of a connid
//	stranger_rest, memory_*, intruder, refused*                           eviction and limits
package peer
