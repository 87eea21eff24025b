// Package engine is the emulated network card: it watches the doorbells of queue
// pairs whose queues lie in memory that a program has mapped, carries their work
// requests out on a device.Device, and writes completions into completion queues.
//
//	program's memory          supervisor                       fabric
//	SQ (LLQ), doorbells ----> engine.QP --- device.QP.PostSend --> shm, sim, tcp
//	RQ, receive buffers <---- engine.QP <-- device.QP.Poll <-----
//	CQ rings            <---- engine.CQ
//
// It knows queue formats and the semantics of EFA; objects with handles, commands
// and errnos are package kernel's.
//
// # What is as on the device
//
// Every WQE yields one completion, with EFA's status if it can't be carried out. A
// packet meets RNR unless the program has posted a receive: the device's queue pair
// never has more slots posted than the program has receives. A receive of a sender
// without address handle shows its GID if the queue was made for that. A program's
// mistakes are findings as well (rules.go).
//
// # What is not
//
//   - Memory isn't pinned: a transfer meets what is mapped there at that moment.
//   - A packet longer than its receive was already acknowledged when the engine
//     sees that: the receiver gets the error (status 6), not the sender (11).
//   - A process whose memory is gone before its files has its queue pairs closed when
//     that is noticed, so that peers see status 9 as of any dead one.
//   - RDMA beyond what the device moves at once goes in pieces, in order; a failure
//     leaves those before it done, and of a write with immediate the receiver sees the
//     length of the last. A request from a peer without address handle here is served
//     (status 14 never comes from this side).
//   - A queue pair with unsolicited writes on a fabric without takes them only while
//     receives are posted, which they leave alone.
//   - Doorbells are memory: see Config.ExactDoorbells. A receive exists for the
//     engine when it has read the doorbell, up to a nap later than the store: a
//     sender of another engine may meet RNR in between.
//
// # Time and threads
//
// Methods may be called from any goroutine; each takes the engine's lock, which a
// Step holds for tens of microseconds when there is much to do. Step does all the
// work; Run calls it on a thread of its own and sleeps when there is nothing to do
// (run_linux.go explains for how long). After Close of an object the engine touches
// nothing that it was given for it. With a virtual device, and Step called by one
// goroutine, everything repeats from the seed.
//
// Start reading at qp.go and step.go, then sq.go and rq.go.
package engine
