package coll

import (
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// layout cuts a buffer into blocks, one after the other, one for each rank.
type layout struct {
	elem   int   // bytes of an element
	q, rem int   // q elements each, and one more for the first rem
	offs   []int // instead: where each block begins and, last, where all end, in elements
	table  []int // the memory of offs
}

// even cuts n elements into p blocks as equal as can be.
func even(n, p, elem int) layout { return layout{elem: elem, q: n / p, rem: n % p} }

// from is where block r begins, in bytes.
func (l *layout) from(r int) int {
	if l.offs != nil {
		return l.offs[r] * l.elem
	}
	return (r*l.q + min(r, l.rem)) * l.elem
}

// block is the memory of block r.
func (l *layout) block(b []byte, r int) []byte { return l.blocks(b, r, r+1) }

// blocks is the memory of the blocks from r up to but without s.
func (l *layout) blocks(b []byte, r, s int) []byte {
	to := l.from(s)
	return b[l.from(r):to:to]
}

// size is the bytes of block r.
func (l *layout) size(r int) int { return l.from(r+1) - l.from(r) }

// largest is the bytes of the largest of p blocks.
func (l *layout) largest(p int) int {
	if l.offs == nil {
		return l.size(0)
	}
	most := 0
	for r := range p {
		most = max(most, l.size(r))
	}
	return most
}

// setCounts makes the blocks as long as counts says, for a buffer of n elements.
func (l *layout) setCounts(counts []int, p, n int) error {
	if len(counts) != p {
		return fmt.Errorf("%w: %d counts for %d ranks", efa.ErrInvalid, len(counts), p)
	}
	l.table = append(l.table[:0], 0)
	at := 0
	for r, k := range counts {
		if k < 0 || k > n-at {
			return fmt.Errorf("%w: counts[%d] is %d, with %d of the buffer's %d elements left", efa.ErrInvalid, r, k, n-at, n)
		}
		at += k
		l.table = append(l.table, at)
	}
	l.offs = l.table
	if at != n {
		return fmt.Errorf("%w: counts are %d elements altogether, the buffer has %d", efa.ErrInvalid, at, n)
	}
	return nil
}
