// Package device is the seam between the protocol and a network interface, at
// the level of verbs: [Device] and [QP] are what a driver provides (sim, shm and
// the real EFA), with EFA's contract: reliable datagrams of at most one MTU, in
// no order, refused when the receiver has posted nothing. The numbers of [Status]
// are EFA's. devicetest holds the suite that every driver passes.
//
// [Queue] is the actor that owns one queue pair: it polls the completion queue,
// hands completions to the actors that wait for them, refills the receive queue
// and rings the doorbell once a turn.
package device
