//go:build linux

package uverbs

import (
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/actors/device/uverbs/mmio"
)

// recvQueue is the receive queue of a queue pair: slots of one MTU, each with a
// descriptor when it is posted.
type recvQueue struct {
	descs []byte
	db    *uint32
	mask  uint32
	count uint32 // of descriptors, runs freely

	mem  []byte // the slots', each bytes, in the region lkey: head bytes, then a packet
	head int    // of a datagram, what lies before it
	each int
	mtu  int
	with []bool // by slot: the device has it
	ids  tagged
	lkey uint32
}

func (r *recvQueue) init(depth int, tag uint16) {
	r.mask = uint32(roundUp(depth) - 1)
	r.with = make([]bool, depth)
	r.ids = newTagged(depth, tag)
}

// slot is the memory of a slot; nil: there is none of the number.
func (r *recvQueue) slot(n int) []byte {
	if uint(n) >= uint(len(r.with)) {
		return nil
	}
	return r.mem[n*r.each+r.head:][:r.mtu:r.mtu]
}

// post gives slots to the device, with one doorbell. Numbers of no slot, and of slots
// that it has, are left out.
func (r *recvQueue) post(slots []int32) {
	was := r.count
	for _, n := range slots {
		if uint(n) >= uint(len(r.with)) || r.with[n] {
			continue
		}
		r.with[n] = true
		d := abi.RxDesc{
			Addr: addressOf(r.mem[int(n)*r.each:]), Length: uint16(r.head + r.mtu), LKey: r.lkey,
			ReqID: r.ids.id(uint16(n)), First: true, Last: true,
		}
		at := int(r.count&r.mask) * abi.RxDescLen
		d.Append(r.descs[at : at : at+abi.RxDescLen])
		r.count++
	}
	if r.count != was {
		mmio.Store(r.db, abi.WorkDoorbell(uint16(r.count)))
	}
}

// finish takes a slot back from the device; the results are those of sendQueue.finish.
func (r *recvQueue) finish(reqID uint16) (slot uint16, known, ok bool) {
	n, known := r.ids.number(reqID)
	if !known || int(n) >= len(r.with) || !r.with[n] {
		return 0, known, false
	}
	r.with[n] = false
	return n, true, true
}
