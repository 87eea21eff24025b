package engine

import "github.com/efactor/efactor/actors/device"

const (
	// maxPiece is most of what one piece of RDMA moves: tens of microseconds, for
	// which everything else of the engine waits.
	maxPiece = 256 << 10
	// maxLarge is how many buffers for pieces there are; who gets none waits.
	maxLarge = 16
)

// pool has the buffers between the program's memory and the device: small ones for
// packets, large ones for pieces of RDMA, which differ in size. It is guarded by the
// engine's lock.
type pool struct {
	small, large     [][]byte
	smallLen         int
	largeLen, larges int
}

func newPool(info device.Info) pool {
	return pool{smallLen: info.MTU, largeLen: max(min(info.MaxRDMA, maxPiece), info.MTU+1)}
}

func (p *pool) packet() []byte {
	if n := len(p.small); n > 0 {
		b := p.small[n-1]
		p.small = p.small[:n-1]
		return b
	}
	return make([]byte, p.smallLen)
}

// piece is a buffer of n bytes; nil: all are in use.
func (p *pool) piece(n int) []byte {
	if n <= p.smallLen {
		return p.packet()[:n]
	}
	if k := len(p.large); k > 0 {
		b := p.large[k-1]
		p.large = p.large[:k-1]
		return b[:n]
	}
	if p.larges == maxLarge {
		return nil
	}
	p.larges++
	return make([]byte, p.largeLen)[:n]
}

// put gives back what packet or piece gave.
func (p *pool) put(b []byte) {
	switch b = b[:cap(b)]; len(b) {
	case p.smallLen:
		p.small = append(p.small, b)
	case p.largeLen:
		p.large = append(p.large, b)
	}
}
