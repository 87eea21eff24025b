package ope

// Owes tells whether a peer waits for packets of ours by which its own operations end,
// and with which the device or the peer's back-off is not done: RECEIPT, EOR or
// PEER_ERROR. An endpoint that closes sends them yet, as libfabric's does.
func (p *Pools) Owes() (owes bool) {
	p.EachTx(func(t *Txe) { owes = owes || t.Owes() })
	p.EachRx(func(r *Rxe) { owes = owes || r.Owes() })
	return owes
}

// Owes tells it of one operation.
func (t *Txe) Owes() bool {
	return t.busy && t.link.Err == nil && (t.m.Proto == ReceiptOnly || t.m.Proto == ErrorOnly)
}

// Owes tells it of one operation. What flies when it is over can be a CTS as well, which
// the device is done with soon.
func (r *Rxe) Owes() bool {
	return r.busy && r.link.Err == nil && (r.m.State == RxAnswer || r.m.State == RxDone && r.flying > 0)
}
