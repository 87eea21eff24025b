package ope

import "github.com/efactor/efactor/wire"

// endAtPiece cuts a segment where the piece of memory ends in which it begins.
func (t *outgoing) endAtPiece(seg *Segment) {
	var pieces [][]byte
	switch {
	case t.m.Proto == ReadResponse:
		pieces = t.x.src[:t.x.nsrc]
	case t.q.Kind == KindSend && t.q.Flags&Pieced != 0:
		pieces = t.q.More.Local
	}
	end := uint64(0)
	for _, p := range pieces {
		if end += uint64(len(p)); end > seg.Off {
			seg.Len = min(seg.Len, end-seg.Off)
			return
		}
	}
}

// slicePieces finds [off, off+n) in memory that lies in several pieces, and returns
// how many of them hold it.
func slicePieces(to *[wire.MaxIOV][]byte, from [][]byte, off, n uint64) (count int) {
	for _, p := range from {
		size := uint64(len(p))
		if n == 0 {
			break
		}
		if off >= size {
			off -= size
			continue
		}
		part := min(size-off, n)
		to[count] = p[off : off+part]
		count++
		off, n = 0, n-part
	}
	return count
}
