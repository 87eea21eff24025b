package coll

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
)

// Alloc returns n zeroed elements in memory that the ranks' devices reach best: the
// recommended buffers of long collectives, which are then copied less often. Plain
// slices do as well. It lives until Free, or until the last group of the family of
// c is closed; to use it afterwards crashes the program.
func Alloc[T any](c *Comm, n int) (_ []T, err error) {
	defer errtext.Wrap("coll", "alloc", &err)
	size, err := sizeOf[T]()
	switch {
	case err != nil:
		return nil, err
	case n < 0 || n > int(^uint(0)>>1)/size:
		return nil, fmt.Errorf("%w: %d elements", efa.ErrInvalid, n)
	case n == 0:
		return []T{}, nil
	}
	b, err := c.family.memory.alloc(n * size)
	if err != nil {
		return nil, err
	}
	return elements[T](b), nil
}

// Free gives memory of Alloc back: s is all of it.
func Free[T any](c *Comm, s []T) (err error) {
	defer errtext.Wrap("coll", "free", &err)
	return c.family.memory.release(bytesOf(s))
}

// memory is the regions that a family has.
type memory struct {
	dom   *efa.Domain
	reads bool // the device reads peers' memory

	mu     sync.Mutex
	list   atomic.Pointer[[]*efa.MemoryRegion] // of Alloc, by address; replaced, not changed
	stages map[stageSize][]*stage              // unused ones
}

func (m *memory) alloc(n int) ([]byte, error) {
	r, err := m.dom.Alloc(n, efa.AccessSend|efa.AccessRecv|efa.AccessRemoteRead)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at, _ := search(m.regions(), r.Bytes())
	l := slices.Insert(slices.Clone(m.regions()), at, r)
	m.list.Store(&l)
	return r.Bytes()[:n], nil
}

func (m *memory) regions() []*efa.MemoryRegion {
	if l := m.list.Load(); l != nil {
		return *l
	}
	return nil
}

// search finds the first region that does not end before b begins.
func search(l []*efa.MemoryRegion, b []byte) (int, bool) {
	return slices.BinarySearchFunc(l, addressOf(b), func(r *efa.MemoryRegion, at uintptr) int {
		switch mem := r.Bytes(); {
		case addressOf(mem)+uintptr(len(mem)) <= at:
			return -1
		case addressOf(mem) > at:
			return 1
		default:
			return 0
		}
	})
}

// find returns the remote address of b, if it lies in memory of Alloc.
func (m *memory) find(b []byte) (efa.Remote, bool) {
	l := m.regions()
	at, ok := search(l, b)
	if !ok {
		return efa.Remote{}, false
	}
	r := l[at]
	off := uint64(addressOf(b) - addressOf(r.Bytes()))
	if off+uint64(len(b)) > uint64(len(r.Bytes())) {
		return efa.Remote{}, false
	}
	return r.Remote().Slice(off, uint64(len(b))), true
}

func (m *memory) release(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	m.mu.Lock()
	at, ok := search(m.regions(), b)
	if !ok || addressOf(m.regions()[at].Bytes()) != addressOf(b) {
		m.mu.Unlock()
		return fmt.Errorf("%w: it is not Alloc's", efa.ErrInvalid)
	}
	r := m.regions()[at]
	l := slices.Delete(slices.Clone(m.regions()), at, at+1)
	m.list.Store(&l)
	m.mu.Unlock()
	return r.Close()
}

// close gives everything back.
func (m *memory) close() error {
	m.mu.Lock()
	all := m.regions()
	m.list.Store(nil)
	for _, l := range m.stages {
		for _, s := range l {
			all = append(all[:len(all):len(all)], s.region)
		}
	}
	m.stages = nil
	m.mu.Unlock()
	var errs []error
	for _, r := range all {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// stage is memory for the frames of a flow, to be read by a peer.
type stage struct {
	region *efa.MemoryRegion
	mem    []byte
	size   stageSize
}

// stageSize is the room of a stage.
type stageSize struct{ segment, places int }

// stage returns one; nil if the device cannot read peers' memory or has no room.
func (m *memory) stage(n stageSize) *stage {
	if !m.reads {
		return nil
	}
	m.mu.Lock()
	if l := m.stages[n]; len(l) > 0 {
		s := l[len(l)-1]
		m.stages[n] = l[:len(l)-1]
		m.mu.Unlock()
		return s
	}
	m.mu.Unlock()
	r, err := m.dom.Alloc(n.segment*n.places, efa.AccessRemoteRead)
	if err != nil {
		return nil
	}
	return &stage{region: r, mem: r.Bytes(), size: n}
}

// unstage takes a stage back; unless it is clean, a peer may be reading it.
func (m *memory) unstage(s *stage, clean bool) {
	if !clean {
		_ = s.region.Close() // no peer reads it any more, even with an error
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stages == nil {
		m.stages = map[stageSize][]*stage{}
	}
	m.stages[s.size] = append(m.stages[s.size], s)
}

// put copies a segment to one of the places, and returns its remote address.
func (s *stage) put(place int, seg []byte) efa.Remote {
	off := place * s.size.segment
	n := copy(s.mem[off:], seg)
	return s.region.Remote().Slice(uint64(off), uint64(n))
}

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
