package peer

import "math/bits"

// blocks keeps memory for copied packets in powers of two, so that a flood of
// small messages costs small blocks and no garbage.
type blocks struct {
	free [maxClass + 1][][]byte
	kept int
}

const (
	minClass = 6  // 64 B
	maxClass = 16 // 64 KiB
	// keepBytes bounds what is kept for reuse.
	keepBytes = 16 << 20
)

func classOf(n int) int { return max(bits.Len(uint(n-1)), minClass) }

// get returns a block of at least n bytes, n > 0.
func (b *blocks) get(n int) []byte {
	c := classOf(n)
	if c > maxClass {
		return make([]byte, n)
	}
	if l := len(b.free[c]); l > 0 {
		p := b.free[c][l-1]
		b.free[c][l-1] = nil
		b.free[c] = b.free[c][:l-1]
		b.kept -= cap(p)
		return p[:n]
	}
	return make([]byte, n, 1<<c)
}

func (b *blocks) put(p []byte) {
	c := bits.Len(uint(cap(p))) - 1
	if cap(p) != 1<<c || c > maxClass || c < minClass || b.kept+cap(p) > keepBytes {
		return
	}
	b.kept += cap(p)
	b.free[c] = append(b.free[c], p)
}
