package ope

import "slices"

// Owes reports whether a peer waits for packets of ours by which its own operations end,
// and with which the device or the peer's back-off is not done: RECEIPT, EOR, ATOMRSP or
// PEER_ERROR. An endpoint that closes sends them yet, as libfabric's does. The answer to
// a read is not one of them: its length is up to the requester.
func (p *Pools) Owes() bool {
	return slices.ContainsFunc(p.tx, (*Txe).Owes) || slices.ContainsFunc(p.rx, (*Rxe).Owes)
}

// Owes reports it of one operation.
func (t *Txe) Owes() bool {
	if !t.busy || t.link.Err != nil {
		return false
	}
	switch t.m.Proto {
	case ReceiptOnly, ErrorOnly, AtomicResponse:
		return true
	default:
		return false
	}
}

// lent reports whether the peer may be reading the caller's memory. As long as the queue
// pair exists nothing ends that, so it is Abandon that does then.
func (t *outgoing) lent() bool { return t.m.Proto.readBased() && t.m.answer }

// Owes reports it of one operation. What flies when it is over can be a CTS as well, which
// the device is done with soon.
func (r *incoming) Owes() bool {
	return r.busy && r.link.Err == nil && (r.m.State == RxAnswer || r.m.State == RxDone && r.flying > 0)
}
