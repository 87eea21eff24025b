package ope

import (
	"math"
	"sync"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// mostKept is how many pieces a list may have that is kept for the next request.
const mostKept = 1024

var iovPool = sync.Pool{New: func() any { return new(More) }}

// GetIOV gives a request empty lists of pieces.
func (r *Request) GetIOV() *More {
	if r.More == nil {
		r.More = iovPool.Get().(*More)
	}
	return r.More
}

// AddLocal adds a piece. False: there would be more bytes than an int counts.
func (l *More) AddLocal(p []byte) bool {
	if uint64(len(p)) > math.MaxInt-l.Total {
		return false
	}
	if len(p) > 0 {
		l.Local = append(l.Local, p)
		l.Total += uint64(len(p))
	}
	return true
}

// PutIOV takes the lists of a request that has ended, if it has some.
func (r *Request) PutIOV() {
	m := r.More
	if m == nil || r.Flags&HasIOV == 0 && len(m.Remote) == 0 {
		return
	}
	r.More, r.Flags = nil, r.Flags&^HasIOV
	clear(m.Local)
	l := More{Local: m.Local[:0], Remote: m.Remote[:0]}
	if cap(l.Local) > mostKept {
		l.Local = nil
	}
	if cap(l.Remote) > mostKept {
		l.Remote = nil
	}
	*m = l
	iovPool.Put(m)
}

// Len is the bytes of the request's own memory.
func (r *Request) Len() int {
	if r.Flags&HasIOV != 0 {
		return int(r.More.Total)
	}
	return len(r.Buf)
}

// hasIOVs reports whether the request has several pieces of memory on a side.
func (r *Request) hasIOVs() bool {
	return r.Flags&HasIOV != 0 || r.More != nil && len(r.More.Remote) > 0
}

// locals are the pieces of the request's own memory.
func (r *Request) locals(one *[1][]byte) [][]byte {
	if r.Flags&HasIOV != 0 {
		return r.More.Local
	}
	one[0] = r.Buf
	return one[:]
}

// remotes is how many pieces of the peer's memory it names.
func (r *Request) remotes() int {
	if r.More == nil {
		return 1
	}
	return max(1, len(r.More.Remote))
}

// iovPos is a piece, and where in the operation it begins.
type iovPos struct {
	i  int
	at uint64
}

// from is the request's memory from byte off on, up to the end of its piece.
func (r *Request) from(off uint64) []byte {
	if r.Flags&HasIOV == 0 {
		return r.Buf[off:]
	}
	l := r.More
	p := l.localAt
	if off < p.at {
		p = iovPos{}
	}
	for p.i < len(l.Local) {
		size := uint64(len(l.Local[p.i]))
		if off-p.at < size {
			l.localAt = p
			return l.Local[p.i][off-p.at:]
		}
		p.i, p.at = p.i+1, p.at+size
	}
	return nil
}

// at is the peer's memory from byte off of n on, up to the end of its piece.
func (r *Request) at(off, n uint64) wire.RMAIOV {
	if r.More == nil || len(r.More.Remote) == 0 {
		return wire.RMAIOV{Addr: r.Addr + off, Len: n - off, Key: r.Key}
	}
	l := r.More
	p := l.remoteAt
	if off < p.at {
		p = iovPos{}
	}
	for p.i < len(l.Remote) {
		x := l.Remote[p.i]
		if off-p.at < x.Len {
			l.remoteAt = p
			return wire.RMAIOV{Addr: x.Addr + off - p.at, Len: x.Len - (off - p.at), Key: x.Key}
		}
		p.i, p.at = p.i+1, p.at+x.Len
	}
	return wire.RMAIOV{}
}

// rmaIOV is what a packet says of the peer's memory, of which the request's total bytes lie
// in at most wire.MaxIOV pieces.
func (r *Request) rmaIOV(total uint64) (iov [wire.MaxIOV]wire.RMAIOV, n uint32) {
	if r.More == nil || len(r.More.Remote) == 0 {
		iov[0] = wire.RMAIOV{Addr: r.Addr, Len: total, Key: r.Key}
		return iov, 1
	}
	return iov, uint32(copy(iov[:], r.More.Remote))
}

// cuts is how many RDMA requests of at most most bytes the request takes, and where the last
// of them begins.
func (r *Request) cuts(most uint64) (n int, last uint64) {
	total := uint64(r.Len())
	for off := uint64(0); off < total; n++ {
		last = off
		off += min(most, uint64(len(r.from(off))), r.at(off, total).Len)
	}
	return n, last
}

// pack makes n bytes from off on the payload of p: in their place if they lie in one piece,
// else a copy.
func (r *Request) pack(p *device.Pke, off, n uint64) {
	if n == 0 {
		p.Carry(nil)
		return
	}
	b := r.from(off)
	if uint64(len(b)) >= n {
		p.Carry(b[:n])
		return
	}
	for p.Carry(nil); n > 0; b = r.from(off) {
		b = b[:min(uint64(len(b)), n)]
		p.Append(b)
		off, n = off+uint64(len(b)), n-uint64(len(b))
		if n == 0 {
			return
		}
	}
}

// scatter copies data that begins at byte off, which is in the request's memory, into that, as
// far as it goes.
func (r *Request) scatter(off uint64, data []byte) {
	for len(data) > 0 {
		b := r.from(off)
		if len(b) == 0 {
			return
		}
		n := copy(b, data)
		off, data = off+uint64(n), data[n:]
	}
}

// Gather copies the request's memory one piece after the other to b.
func (r *Request) Gather(b []byte) (n int) {
	var one [1][]byte
	for _, p := range r.locals(&one) {
		n += copy(b[n:], p)
	}
	return n
}

// Touches reports whether the request's memory, from byte 0 on, has a byte in common with
// mem.
func (r *Request) Touches(mem []byte) bool {
	var one [1][]byte
	for _, p := range r.locals(&one) {
		if Overlap(mem, p) {
			return true
		}
	}
	return false
}

// sliceIOVs finds [off, off+n) in memory that lies in several pieces, and returns
// how many of them hold it.
func sliceIOVs(to *[wire.MaxIOV][]byte, from [][]byte, off, n uint64) (count int) {
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
