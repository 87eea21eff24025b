package coll

import (
	"math/bits"
	"sync"
	"unsafe"
)

// temps are the buffers that an algorithm needs beside those of its caller. Short
// ones lie in the call, others are kept for the next one; all are aligned for any
// element.
type temps struct {
	small [64]uint64
	used  int        // words of small
	large [][]uint64 // given out, or to be given back
}

// get returns a buffer of n bytes, with anything in it.
func (t *temps) get(n int) []byte {
	words := (n + 7) / 8
	if words <= len(t.small)-t.used {
		b := t.small[t.used : t.used+words]
		t.used += words
		return bytesOf(b)[:n]
	}
	class := bits.Len(uint(words - 1))
	var w []uint64
	if v, ok := spare[class].Get().(*uint64); ok {
		w = unsafe.Slice(v, 1<<class)
	} else {
		w = make([]uint64, 1<<class)
	}
	t.large = append(t.large, w)
	return bytesOf(w)[:n]
}

// put gives the latest buffer back, if it is that.
func (t *temps) put(b []byte) {
	if len(b) == 0 {
		return
	}
	if n := len(t.large); n > 0 && addressOf(bytesOf(t.large[n-1])) == addressOf(b) {
		keep(t.large[n-1])
		t.large[n-1] = nil
		t.large = t.large[:n-1]
		return
	}
	words := (len(b) + 7) / 8
	if t.used >= words && addressOf(bytesOf(t.small[t.used-words:])) == addressOf(b) {
		t.used -= words
	}
}

// free gives all back.
func (t *temps) free() {
	for i, w := range t.large {
		keep(w)
		t.large[i] = nil
	}
	t.large, t.used = t.large[:0], 0
}

// spare are unused buffers of 1<<class words. The garbage collector takes those
// that are not used for long.
var spare [64]sync.Pool

func keep(w []uint64) { spare[bits.Len(uint(len(w)-1))].Put(unsafe.SliceData(w)) }
