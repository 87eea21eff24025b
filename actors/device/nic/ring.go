package nic

import "github.com/efactor/efactor/actors/device"

// sendDone is a completed send.
type sendDone struct {
	id     uint64
	status device.Status
}

// ring is the completion ring of the send queue. Invariant: never more entries
// than the queue has depth, so push needs no check.
type ring struct {
	buf        []sendDone
	mask       uint32
	head, tail uint32
}

func newRing(depth int) ring {
	size := uint32(1)
	for int(size) < depth {
		size <<= 1
	}
	return ring{buf: make([]sendDone, size), mask: size - 1}
}

func (r *ring) empty() bool { return r.head == r.tail }

func (r *ring) drop() { r.head = r.tail }

func (r *ring) push(d sendDone) {
	r.buf[r.tail&r.mask] = d
	r.tail++
}

func (r *ring) pop() sendDone {
	d := r.buf[r.head&r.mask]
	r.head++
	return d
}
