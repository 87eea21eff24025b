package endpoint_test

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/wire"
)

// Messages that are given up: libfabric does so when the memory of one is closed (mrclose). We cancel
// the operation, or, where its receiver had no place for the request (norecv), have the device fail that.

// detachLimit has nothing that is canceled go on from a copy in scenarios where messages are given up.
func detachLimit(s *golden.Scenario) int {
	if slices.ContainsFunc(s.Args, func(a string) bool { return strings.Contains(a, "mrclose") }) {
		return 1
	}
	return 0
}

// abortOf is the PEER_ERROR by which the sender of a message gives it up.
func abortOf(s *golden.Scenario, first *golden.Packet, actor string) *wire.PeerError {
	for _, p := range operationAt(s, first.Seq) {
		if pkt, _, err := wire.Decode(p.Hex); err == nil && p.From == actor {
			if e, ok := pkt.(*wire.PeerError); ok && e.Emitter == wire.EmitterTX {
				return e
			}
		}
	}
	return nil
}

// repeats reports whether a packet is posted again, since the receiver was not ready.
func (o *operation) repeats(p golden.Packet) bool {
	if o.sent == nil || o.sent[string(p.Hex)] {
		return o.sent != nil
	}
	o.sent[string(p.Hex)] = true
	return false
}

// unseen reports whether a packet of the other side's never arrived.
func (o *operation) unseen(p golden.Packet) bool {
	if o.aborted == nil || !o.flags["norecv"] {
		return false
	}
	v, err := wire.Open(p.Hex)
	id, ok := v.MsgID()
	return err == nil && ok && id == o.aborted.MsgID
}

// fill sends the small messages.
func (r *replay) fill() {
	for i := range uint64(4) {
		r.rig.Submit(ope.Request{
			Kind: ope.KindSend, Flags: ope.Tagged, Tag: 0xdead1000 + i, Peer: r.other.Handle, Buf: r.now.data()[:4],
		}, r.now.first.Seed)
	}
	r.rig.Run()
}

// giveUp ends the message of ours that is in progress, if the next packet of ours after p says so.
func (r *replay) giveUp(p golden.Packet) {
	o := r.now
	if o.aborted == nil || o.actor != r.side || o.did.Ends > 0 {
		return
	}
	for _, q := range operationAt(r.s, p.Seq) {
		if q.From != r.side || o.sent[string(q.Hex)] && q.Seq != p.Seq {
			continue
		}
		if q.Type != "PEER_ERROR" {
			return
		}
		break
	}
	r.rig.Run()
	if !o.flags["norecv"] {
		r.rig.Cancel(o.did)
	}
	for _, x := range r.rig.QP.Flying() {
		r.rig.QP.Complete(x, device.StatusLocalBadLength)
	}
	r.rig.Auto = true
	r.rig.Run()
	require.Equal(r.t, 1, o.did.Ends, o.first.Op)
	r.match()
}
