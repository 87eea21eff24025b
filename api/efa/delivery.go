package efa

import (
	"math/bits"
	"sync/atomic"
)

// Delivery is a message of any size, in a buffer that the endpoint has lent the caller.
type Delivery struct {
	Message
	Body []byte // all of it, to be read and written until Release

	from *lease
	use  uint64
}

// Release gives the buffer back: Body must not be touched any more. A second call does
// nothing. Any goroutine may call it, also after Close.
func (d Delivery) Release() {
	if d.from != nil && (d.from.state.CompareAndSwap(d.use, d.use+nextLease) ||
		d.from.state.CompareAndSwap(d.use|keptLease, d.use+nextLease)) {
		d.from.back()
	}
}

// Keep has a message of [Endpoint.Messages] outlive the step of its loop: the caller is to
// Release it.
func (d Delivery) Keep() {
	if d.from != nil {
		d.from.state.CompareAndSwap(d.use, d.use|keptLease)
	}
}

// unlessKept is Release, but for what Keep was called of.
func (d Delivery) unlessKept() {
	if d.from.state.CompareAndSwap(d.use, d.use+nextLease) {
		d.from.back()
	}
}

// lease is a buffer that is lent again and again. Its state says how often, and whether the
// present message is kept.
type lease struct {
	to    *inbox
	buf   []byte
	class int // of buffers that are used again; else -1
	cost  int64
	state atomic.Uint64
}

const (
	keptLease = 1
	nextLease = 2
)

// Buffers of up to 1 MiB are used again, the smallest of which have the device's MTU.
const (
	leaseShift   = 16 // buffers of the next class, in powers of two
	leaseClasses = 6
)

// classOf is the class of buffers for n bytes, and how many they have.
func (b *inbox) classOf(n int) (class, size int) {
	if n <= b.mtu {
		return 0, b.mtu
	}
	c := max(bits.Len(uint(n-1)), leaseShift) - leaseShift + 1
	if c >= leaseClasses {
		return -1, n
	}
	return c, 1 << (c - 1 + leaseShift)
}

// lend gets a buffer of a class, or of size bytes.
func (b *inbox) lend(class, size int) *lease {
	if class >= 0 {
		if l, _ := b.free[class].Get().(*lease); l != nil {
			return l
		}
	}
	return &lease{to: b, buf: make([]byte, size), class: class, cost: int64(size)}
}

// back takes the buffer back that a message was in.
func (l *lease) back() {
	b, cost := l.to, l.cost
	b.unused(l)
	b.mem.give(cost)
}

// unused takes a buffer back that counts for nothing.
func (b *inbox) unused(l *lease) {
	if l.class >= 0 {
		b.free[l.class].Put(l)
	} else {
		l.buf = nil
	}
}
