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
// Start reading at peer.go.
package peer
