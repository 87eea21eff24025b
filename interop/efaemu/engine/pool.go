package engine

import "github.com/efactor/efactor/actors/device"

const (
	// maxPiece bounds the bytes that one piece of RDMA moves: tens of microseconds,
	// for which all other work of the engine waits.
	maxPiece = 256 << 10
	// maxLarge is how many buffers for pieces a queue pair has at a time; beyond, its
	// next piece waits. It is each one's own bound, since writes that meet RNR keep
	// theirs, perhaps for ever.
	maxLarge = 8
	// keepLarge is how many are kept for the next request.
	keepLarge = 16
)

// pool has the buffers between the program's memory and the device: small ones for
// packets, large ones for pieces of RDMA, which differ in size. It is guarded by the
// engine's lock.
type pool struct {
	small, large       [][]byte
	smallLen, largeLen int
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

// isLarge reports whether a piece of n bytes takes a large buffer.
func (p *pool) isLarge(n int) bool { return n > p.smallLen }

// piece is a buffer of n bytes.
func (p *pool) piece(n int) []byte {
	if !p.isLarge(n) {
		return p.packet()[:n]
	}
	if k := len(p.large); k > 0 {
		b := p.large[k-1]
		p.large = p.large[:k-1]
		return b[:n]
	}
	return make([]byte, p.largeLen)[:n]
}

// put returns a buffer of packet or piece.
func (p *pool) put(b []byte) {
	switch b = b[:cap(b)]; len(b) {
	case p.smallLen:
		p.small = append(p.small, b)
	case p.largeLen:
		if len(p.large) < keepLarge {
			p.large = append(p.large, b)
		}
	}
}
