// Package sim is a fabric inside one process: [New] makes it, Fabric.OpenDevice
// attaches a device, and every device reaches every other. Packets arrive in a
// random order drawn from the seed, unless Config.InOrder.
//
// A fabric runs in one of three ways:
//
//   - virtual: one goroutine, time that stands still, packets that lie in flight
//     until Step delivers one. The same calls with the same seed give the same
//     run, to the byte; a test compares logs of [TextLog].
//   - immediate (InOrder and no delay): PostSend puts the packet into a slot of
//     the receiver. One short lock per receiver, no goroutine in between.
//   - held: a few packets are kept back so that they change places, or until their
//     delay is over. They move when a queue pair of the fabric rings its doorbell,
//     polls or arms; Arm of the sender refuses while any are in flight, so nothing
//     gets stuck as long as shards arm before they sleep.
//
// RDMA is an ability of each device. A request travels like a packet and is carried
// out where it arrives, so requests and packets overtake each other; on an
// immediate fabric PostSend copies straight between the two memories. In virtual
// time keys come from the seed and addresses are numbers.
//
// [Rule] describes a fault: for which requests, how often, how likely. Kill makes a
// device vanish. A hook sees every event, in order.
//
// Notify of a queue pair is called with the fabric locked: it may wake the queue
// pair's owner, and must not call into the fabric.
//
// Start reading at fabric.go, then flight.go.
package sim
