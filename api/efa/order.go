package efa

import (
	"math"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
)

// Fence makes a message, a write, a read or an atomic begin when all earlier operations of
// this endpoint with the same peer are over (FI_FENCE). Nothing of it leaves before that, and
// what comes to the peer after it waits behind it. So a program that sees that it has
// happened sees all of them:
//
//   - Writes and atomics have changed the peer's memory, reads have their data.
//   - Short messages are in the peer's receive buffers or its queue of unexpected messages, in
//     front of what is fenced. Messages for which the peer must have posted a
//     receive (longer than Limits.MaxMedium, or with the level Delivered) have been received;
//     until then the fence waits.
//
// An operation that failed or was canceled is over as well: that is known by its own completion.
// A fence that is canceled while it waits ends at once. If the peer fails, it ends like those
// before it, with ErrPeerFailed; and Close ends it with ErrClosed. It waits for injected and
// Quiet operations, too. It costs the time until the last answer is here, and after writes or
// atomics that a packet carried at the level Transmitted, fenced writes and reads go by
// packets, too. Operations of other endpoints and peers are not waited for.
var Fence = OpOption{kind: optFence}

func fenced(req *ope.Request, fence bool) {
	if fence {
		req.Flags |= ope.Fence
	}
}

// Order is a set of orders, combined by |, for EndpointConfig: SendAfterWrite|WriteAfterWrite.
// They hold for what goes to one peer, whatever its size. The later operation waits for the
// earlier one as behind a [Fence]; writes and atomics that fetch nothing have the level
// Delivered then, if the peer knows it. Messages after messages, and atomics after atomics
// and messages, are in order always, at receivers that are not Unordered; those
// need no wait.
type Order = settings.Order

// The orders (FI_ORDER_...). An atomic is a write and a read.
const (
	SendAfterWrite  = settings.SendAfterWrite  // a message is seen after the bytes of earlier writes (SAW)
	SendAfterRead   = settings.SendAfterRead   // a message goes out after earlier reads have their data (SAR)
	WriteAfterSend  = settings.WriteAfterSend  // a write begins when earlier messages are complete (WAS)
	WriteAfterWrite = settings.WriteAfterWrite // writes land in order (WAW)
	WriteAfterRead  = settings.WriteAfterRead  // a read does not see later writes (WAR)
	ReadAfterSend   = settings.ReadAfterSend   // a read begins when earlier messages are complete (RAS)
	ReadAfterWrite  = settings.ReadAfterWrite  // a read sees earlier writes (RAW)
	ReadAfterRead   = settings.ReadAfterRead   // reads take place in order (RAR)
)

// MaxOrdered is up to how many bytes operations are in all the given orders on an endpoint with
// the configuration (max_order_raw_size and so on): math.MaxInt, or 0 if it lacks one. Among
// atomics alone, which have at most Limits.MaxAtomic bytes, order is not asked for.
func (cfg *EndpointConfig) MaxOrdered(o Order) int {
	if cfg.Order&o != o {
		return 0
	}
	return math.MaxInt
}
