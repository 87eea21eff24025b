// Package device is the seam between the protocol and a network interface, at
// the level of verbs: [Device] and [QP] are what a driver provides (sim, shm,
// tcp and uverbs; multi joins several), with EFA's contract: reliable datagrams of at most one MTU, in
// no order, refused when the receiver has posted nothing. The numbers of [Status]
// are EFA's. devicetest holds the suite that every driver passes.
//
// [Queue] is the actor that owns one queue pair: it polls the completion queue,
// hands completions to the actors that wait for them, refills the receive queue
// and rings the doorbell once a turn.
//
// Start reading at device.go (the device), qp.go (the queue pair), wr.go and completion.go
// (what goes in and out of it); then queue.go for the actor, pke.go for the way
// of an outgoing packet, with its waits for room and after RNR, and rx.go for receive slots.
package device
