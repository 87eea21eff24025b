package main

import (
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// segment is one of another process's, mapped: its layout is in actors/device/shm/layout.go.
// What lies between the tables at its front and the posts differs between versions, so those
// are found from the end.
type segment struct {
	mem   []byte
	cells int // as many as posts
	posts int // where they begin
	cell0 int // where the cells do
	kept  int // posts that are claimed and will not be published
}

const (
	segmentMagic = 0x6d68732d61666531
	sendersAt    = 512
	senders      = 1 << 12
	cellLen      = 128
)

// segmentsOf maps all segments that a process has open or mapped, which may be others', too.
func segmentsOf(pid int) (found []*segment) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range links {
		to, err := os.Readlink(path)
		if err != nil || !strings.Contains(to, "efactor-") {
			continue
		}
		if s := mapSegment(path); s != nil {
			found = append(found, s)
		}
	}
	return found
}

// sealed are the descriptors of memory files of a process.
func sealed(pid int) (paths []string) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range links {
		if to, err := os.Readlink(path); err == nil && strings.HasPrefix(to, "/memfd:efactor-") {
			paths = append(paths, path)
		}
	}
	return paths
}

// mapSegment maps a file if it is a segment.
func mapSegment(path string) *segment {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() < sendersAt+senders*32 {
		return nil
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	s := &segment{mem: mem}
	if s.word(0).Load() != segmentMagic {
		_ = syscall.Munmap(mem)
		return nil
	}
	mtu, slots := int(s.half(36)), int(s.half(40))
	s.cells = 1 << bits.Len(uint(slots-1))
	s.cell0 = len(mem) - slots*((mtu+63)&^63) - s.cells*cellLen
	s.posts = s.cell0 - s.cells*8
	if slots < 16 || s.posts < sendersAt+senders*32 {
		_ = syscall.Munmap(mem)
		return nil
	}
	return s
}

func (s *segment) word(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&s.mem[at])) }
func (s *segment) half(at int) uint32         { return *(*uint32)(unsafe.Pointer(&s.mem[at])) }
func (s *segment) qpn() uint16                { return uint16(s.half(44)) }
func (s *segment) owner() [16]byte            { return [16]byte(s.mem[16:32]) }

// senderOf is the place of a queue pair in the table of senders, or -1.
func (s *segment) senderOf(qpn uint16) int {
	for i := range senders {
		if who := s.word(sendersAt + 16*i).Load(); who&1 == 1 && uint16(who>>1) == qpn {
			return i
		}
	}
	return -1
}

// post is that of place i.
func (s *segment) post(i int) *atomic.Uint64 {
	if shift := bits.Len(uint(s.cells)) - 1; shift >= 6 {
		i = i>>(shift-3) | i<<3&(s.cells-1)
	}
	return s.word(s.posts + 8*i)
}

// claim claims a post for the sender at place me, and returns its own place and its word.
func (s *segment) claim(me int) (i int, w uint64, ok bool) {
	const posted, claimed = 1, 2
	tail := int(s.word(384).Load())
	for k := range s.cells {
		i = (tail + k) & (s.cells - 1)
		p := s.post(i)
		w = p.Load()
		if w&3 == posted && p.CompareAndSwap(w, w&^0xffff|uint64(me)<<2|claimed) {
			return i, w, true
		}
	}
	return 0, 0, false
}

// publish writes a cell, and its word last.
func (s *segment) publish(i int, w uint64, packet []byte) {
	at := s.cell0 + i*cellLen
	copy(s.mem[at+8:at+cellLen], packet)
	s.word(at).Store(w)
}
