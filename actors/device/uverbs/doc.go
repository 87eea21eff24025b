// Package uverbs is the device for an EFA card: control through the kernel's uverbs
// interface, data through the card's own queues, which it maps. There is no C in it.
//
//	Device ------ context: device file, commands, limits, protection domain
//	  |              |
//	  |           handles (one address handle for each GID), region (Register, Alloc)
//	  |
//	  +-- QP ------- resources: the objects and mappings of a queue pair
//	       |- sendQueue        WQEs are staged in ordinary memory and copied to the card
//	       |- recvQueue        slots and their descriptors
//	       |- completionQueue  rings that the card writes, read by their phase bits
//	       +- peers            the address handles that this queue pair may name
//
// The layouts are package abi's, the stores to the card's memory package mmio's. What the
// system does, Kernel does: OS is the real one, and an emulated device in this process
// another (interop/efaemu).
//
// # A packet's way
//
// PostSend builds a WQE in sendQueue.stage. A packet of up to 32 bytes, 80 where WQEs have
// 128, lies in it. A longer one is copied to memory that the card knows, and the WQE says
// where; a payload for which SendWR.LKey names a region goes out from its place, gathered
// behind the copy of its header. Doorbell copies what was staged to the card and rings once,
// or as often as the card wants that.
//
// # What the device says is not believed
//
// Lengths, offsets and numbers in the kernel's answers are checked before anything is
// mapped. A completion names a request or a slot by a number; only one that is under way
// ends, a packet has an MTU at most, and anything else ends the queue pair (OpFatal). Ids
// carry a tag of their queue pair, so that late completions of one before it are dropped.
// If a command that would have stopped the card from writing to memory fails, that memory
// stays mapped until the device is closed (context.abandon).
//
// # Differences to a software device
//
//   - The card chooses queue pair numbers, and has no memory windows.
//   - An arriving write with immediate shows no GID of a sender without address handle: the
//     completion has no room for it. Rights of a region that the card cannot give to others
//     are left out when it is registered.
//   - Without completion channels, which the first cards lack, Arm says that it cannot.
//
// # What is not here
//
// Dma-buf regions as the local side of requests, writes that take no receive (a peer could overrun the completion queue with them), completion queues
// in memory of the caller, inline RDMA writes, request ids of 64 bits, and service levels.
// None of it has met real hardware: docs/efa-driver.md says what is proved.
//
// Start reading at device.go and qp.go, then workqueue.go, cq.go and poll.go. context.go has
// the commands to the kernel.
package uverbs
