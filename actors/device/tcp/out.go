package tcp

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// out holds the pending output of a lane, in order: headers and packets, copied; and, by reference,
// payloads until the doorbell, memory of our own writes, and regions that others read.
type out struct {
	buf   []byte // copied bytes; those before head are written
	head  int
	base  uint64 // bytes that lay before buf[0] earlier
	segs  []seg
	first int  // of segs that is not written
	size  int  // bytes in all
	lent  bool // there are segments that are lent
}

// seg is a piece of pending output.
type seg struct {
	n    int    // bytes left; they lie in buf unless
	mem  []byte // they are here, the payload of a write,
	lent bool   // or of a packet, for which there is room in buf;
	read bool   // or they are in a region,
	key  uint64
	addr uint64
	// and if it was closed meanwhile, the status at this distance in buf changes.
	verdict uint64
}

// spareCap is how much memory an idle lane keeps.
const spareCap = 4 << 20

// zeroes replace a region that was closed during the transfer.
var zeroes [16 << 10]byte

// add counts n bytes that were appended to buf.
func (o *out) add(n int) {
	o.size += n
	if last := len(o.segs) - 1; last >= o.first && o.segs[last].mem == nil && !o.segs[last].read {
		o.segs[last].n += n
		return
	}
	o.push(seg{n: n})
}

func (o *out) push(s seg) {
	if len(o.segs) == cap(o.segs) && o.first > 0 {
		n := copy(o.segs, o.segs[o.first:])
		clear(o.segs[n:])
		o.segs, o.first = o.segs[:n], 0
	}
	o.segs = append(o.segs, s)
}

// frame appends a header.
func (o *out) frame(f *frame) {
	o.room(maxLen)
	n := len(o.buf)
	o.buf = f.appendTo(o.buf)
	o.add(len(o.buf) - n)
}

// bytes appends a copy of b.
func (o *out) bytes(b []byte) {
	if len(b) == 0 {
		return
	}
	o.room(len(b))
	o.buf = append(o.buf, b...)
	o.add(len(b))
}

// room moves the rest to the front rather than let buf grow.
func (o *out) room(n int) {
	if o.head > 0 && len(o.buf)+n > cap(o.buf) {
		o.base += uint64(o.head)
		k := copy(o.buf, o.buf[o.head:])
		o.buf, o.head = o.buf[:k], 0
	}
}

// memory appends b itself, the payload of a write of ours.
func (o *out) memory(b []byte) {
	if len(b) > 0 {
		o.push(seg{n: len(b), mem: b})
		o.size += len(b)
	}
}

// lend appends b itself until settle, and keeps room in buf for a copy.
func (o *out) lend(b []byte) {
	o.room(len(b))
	o.buf = slices.Grow(o.buf, len(b))[:len(o.buf)+len(b)]
	o.push(seg{n: len(b), mem: b, lent: true})
	o.size += len(b)
	o.lent = true
}

// settle copies what is lent, which its owner may change from now on.
func (o *out) settle() {
	if !o.lent {
		return
	}
	o.lent = false
	at := o.head
	for i := o.first; i < len(o.segs); i++ {
		s := &o.segs[i]
		if s.lent {
			copy(o.buf[at:], s.mem)
			s.mem, s.lent = nil, false
		}
		if s.mem == nil && !s.read {
			at += s.n
		}
	}
}

// region appends n bytes of a region and the status that ends the read.
func (o *out) region(key, addr uint64, n int, token uint64) {
	data := frame{kind: kindData, length: n, token: token}
	o.frame(&data)
	o.push(seg{n: n, read: true, key: key, addr: addr, verdict: o.base + uint64(len(o.buf))})
	o.size += n
	end := frame{kind: kindStatus, token: token}
	o.frame(&end)
}

// gather collects up to most bytes in vec, which has room, for one call. It returns how
// many there are, and in held the regions that must be released after the call.
func (o *out) gather(vec [][]byte, held []*nic.Region, regions *nic.Regions, most int) ([][]byte, []*nic.Region, int) {
	at, total := o.head, 0
	for i := o.first; i < len(o.segs) && len(vec) < maxIovecs && total < most; i++ {
		s := &o.segs[i]
		b := s.mem
		switch {
		case s.read:
			var r *nic.Region
			if r, b = regions.Hold(s.key, s.addr, s.n, device.RemoteRead); r != nil {
				held = append(held, r)
				break
			}
			o.buf[s.verdict-o.base+1] = uint8(device.StatusBadAddress)
			b = zeroes[:min(s.n, len(zeroes))]
		case s.lent:
			at += s.n
		case b == nil:
			b = o.buf[at : at+s.n]
			at += s.n
		}
		vec = append(vec, b)
		total += len(b)
		if len(b) < s.n {
			break
		}
	}
	return vec, held, total
}

// wrote removes the first n bytes.
func (o *out) wrote(n int) {
	o.size -= n
	for n > 0 {
		s := &o.segs[o.first]
		k := min(n, s.n)
		n -= k
		s.n -= k
		switch {
		case s.read:
			s.addr += uint64(k)
		case s.mem != nil:
			if s.mem = s.mem[k:]; s.lent {
				o.head += k
			}
		default:
			o.head += k
		}
		if s.n == 0 {
			*s = seg{}
			o.first++
		}
	}
	if o.size == 0 {
		o.reset()
	}
}

// reset empties it. It keeps no memory of others.
func (o *out) reset() {
	clear(o.segs[o.first:])
	o.base += uint64(len(o.buf))
	o.segs, o.first, o.buf, o.head, o.size, o.lent = o.segs[:0], 0, o.buf[:0], 0, 0, false
	if cap(o.buf) > spareCap {
		o.buf = nil
	}
}
