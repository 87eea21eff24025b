// Package flow streams messages from one endpoint to another, or both ways, and counts
// them by the receiver's clock.
//
// A [Plan] says what is done; other systems' programs (package contest) do the same:
//
//   - Messages go out in batches. Within a batch at most Window sends are outstanding, and
//     the receiver has up to Window receives posted.
//   - When a batch is complete the receiver answers with a message of 8 bytes; the
//     sender waits for it before the next batch.
//   - The clock starts when the receiver has the last of the Warm messages, and stops when
//     it has the last of Count more. The last answer carries the nanoseconds.
//
// Sends and receives are posted, with a request per call, as a user writes them. Each
// message must arrive in full: its length is checked when it completes, and at the end the
// receive buffers must hold what was sent.
package flow
