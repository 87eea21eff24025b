package ope

import (
	"github.com/efactor/efactor/actors/device"
)

// bounce is registered memory to read into where the application's is not
// registered and the peer does not know READ_NACK.
type bounce struct {
	mr   device.MR
	free [][]byte
	line []*Rxe // operations that wait for a piece
	err  error
}

const (
	bouncePieces = 16
	bounceSize   = 64 << 10
)

// bounceMemory makes the memory if it is not there yet.
func (p *Pools) bounceMemory() *bounce {
	b := &p.bounce
	if b.mr == nil && b.err == nil {
		if b.mr, b.err = p.Device.Alloc(bouncePieces*bounceSize, device.LocalWrite); b.err == nil {
			mem := b.mr.Bytes()
			for i := range bouncePieces {
				b.free = append(b.free, mem[i*bounceSize:][:bounceSize:bounceSize])
			}
		}
	}
	return b
}

// get takes a piece, nil if there is none.
func (b *bounce) get() []byte {
	n := len(b.free)
	if n == 0 {
		return nil
	}
	p := b.free[n-1]
	b.free = b.free[:n-1]
	return p
}

// put gives a piece back.
func (b *bounce) put(p []byte) { b.free = append(b.free, p[:bounceSize]) }

// next takes the operation that has waited longest out of the line.
func (b *bounce) next() *Rxe {
	if len(b.line) == 0 {
		return nil
	}
	r := b.line[0]
	b.line = append(b.line[:0], b.line[1:]...)
	return r
}

// Reserve takes the memory that reads go by way of where neither the application's
// is registered nor the sender knows READ_NACK. Without it such messages could not
// be received, so an endpoint that cannot have it must not say that it reads.
func (p *Pools) Reserve() error { return p.bounceMemory().err }

// CloseMemory gives back what the operations had registered for themselves, after
// the queue pair is closed.
func (p *Pools) CloseMemory() {
	if b := &p.bounce; b.mr != nil {
		_ = b.mr.Close() // nothing to be done about it
		b.mr, b.free = nil, nil
	}
}
