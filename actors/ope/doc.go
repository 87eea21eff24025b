// Package ope holds the operations: a [Txe] is one message being sent, an [Rxe]
// one being received (libfabric's efa_rdm_ope). Each is an actor, spawned in
// slabs and armed again for the next operation, around two pure machines: [Tx] or
// [Rx] decides what may be posted or granted and when an operation is finished,
// [Caller] has what the application still holds of it; the actors build packets,
// copy data and complete.
//
//	eager     TXE_REQ --post--> acked
//	medium    TXE_REQ --post x n--> acked
//	long-CTS  TXE_REQ --post--> (CTS --> OPE_SEND --CTSDATA...-->)* acked
//
// Start reading at machines.go, then txe.go and send.go, or rxe.go and deliver.go. The rooms:
//
//	request.go    Request, its kinds and flags, Result
//	posted.go     a request that waits: in the matcher, or with its operation
//	pools.go      Pools: how an operation begins, is found by its id, and is given back
//	choose.go     Facts and Choose: the subprotocol of an operation, and how it is cut
//	proto.go      the subprotocols of the specification's Table 1.1
//	machines.go   the machines Tx, Rx and Caller, their tables, and Steps, which counts them
//	txe.go        Txe: its life from arm to release
//	send.go       a txe's turn: choose, build headers, post; the answers to it; order and fences
//	cancel.go     a caller that leaves, a region that is closed, a peer that must hear of the end
//	respond.go    answers to the peer's reads and atomics, RECEIPT and PEER_ERROR
//	rxe.go        Rxe: its life from the first packet to release
//	deliver.go    how data gets to its place; CTS, RECEIPT and EOR
//	read.go       reads of ours, and RDMA reads of the peer's memory; READ_NACK
//	iov.go        memory in several pieces
//	regions.go    which memory is registered, or lent to the peer; bounce memory
//	split.go      one request as several operations, or in stripes over several paths
//	multirecv.go  one buffer for many messages (FI_MULTI_RECV)
//	records.go    the trail, snapshots and counts of operations
//
// The tests here prove the pure parts. The scenario files of actors/endpoint/testdata prove the
// actors, packet by packet:
//
//	send.go       eager*, medium_send, longcts_send, longread_send, runt*, dc_*, write_*, atomic_*, fence*, order*, family*, homogeneous
//	cancel.go     cancel*, region_closed_*, peer_error_*, untold, close*, death_send, longcts_bad_cts, refused*
//	respond.go    read_short_respond, read_longcts_respond, atomic_fetch_respond, rnr_answers
//	rxe.go        death_recv, death_return*, malformed, bad_packets, remove_unexpected
//	deliver.go    medium_recv, longcts_recv, longcts_unexpected, truncation, discard, write_*_recv, ctsdata_failed, receipt_cut
//	read.go       read_direct*, read_bounce, read_nack*, longread_*, runt_recv
//	iov.go        pieces_*
//	regions.go    read_direct_keys, write_direct_keys, longread_send, region_closed_*
//	split.go      pieces_write_direct, write_direct_data
//	multirecv.go  multi*, sized
//	records.go    spans_*, served
package ope
