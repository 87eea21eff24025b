//go:build linux

package kernel

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// arenaSize bounds a context's mappings. The file is sparse: only pages that are
// touched take memory.
const arenaSize = 256 << 20

// arena is the memory behind a device file, handed out in whole pages. As in the
// kernel, a key is reused only when it is no longer mapped, and memory is zero when
// it is handed out. An unused page lies behind every region: two mappings that are
// neighbours in the file would become one in a task's list.
type arena struct {
	fd      int
	mem     []byte // all of it, mapped here
	page    uint64
	used    map[uint64]*region // by key
	free    []span             // by offset, with gaps between them
	retired []span             // given back, perhaps still mapped
}

type span struct{ off, n uint64 }

type region struct {
	Region
	name string // for findings
}

// newArena makes a device file. It can neither shrink, which would kill this
// process (SIGBUS), nor grow.
func newArena(name string) (*arena, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	a := &arena{
		fd: fd, page: uint64(os.Getpagesize()),
		used: make(map[uint64]*region), free: []span{{0, arenaSize}},
	}
	if err := unix.Ftruncate(fd, arenaSize); err != nil {
		return nil, errors.Join(os.NewSyscallError("ftruncate", err), unix.Close(fd))
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, errors.Join(os.NewSyscallError("F_ADD_SEALS", err), unix.Close(fd))
	}
	a.mem, err = unix.Mmap(fd, 0, arenaSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), unix.Close(fd))
	}
	return a, nil
}

func (a *arena) close() {
	_ = unix.Munmap(a.mem)
	_ = unix.Close(a.fd)
	a.mem, a.fd = nil, -1
}

// clear makes all memory zero and forgets every region.
func (a *arena) clear() {
	a.punch(span{0, arenaSize})
	a.used = make(map[uint64]*region)
}

// bytes is the memory of r.
func (a *arena) bytes(r *region) []byte { return a.mem[r.Key : r.Key+r.Length : r.Key+r.Length] }

// alloc hands out n bytes, rounded up to whole pages; nil: there are no more.
func (a *arena) alloc(t Task, name string, n uint64, prot int) *region {
	n = (n + a.page - 1) &^ (a.page - 1)
	if n == 0 || n > arenaSize {
		return nil
	}
	a.settle(t)
	for i := range a.free {
		f := &a.free[i]
		if f.n < n+a.page {
			continue
		}
		r := &region{Region: Region{Key: f.off, Length: n, Prot: prot}, name: name}
		f.off, f.n = f.off+n+a.page, f.n-n-a.page
		if f.n == 0 {
			a.free = slices.Delete(a.free, i, i+1)
		}
		a.used[r.Key] = r
		return r
	}
	return nil
}

// giveBack ends the use of r. Its memory is freed at once, its range when no
// mapping shows it any more.
func (a *arena) giveBack(r *region) {
	if r == nil || a.used[r.Key] != r {
		return
	}
	delete(a.used, r.Key)
	s := span{r.Key, r.Length + a.page}
	a.punch(s)
	a.retired = append(a.retired, s)
}

// settle frees the ranges that t doesn't have mapped any more.
func (a *arena) settle(t Task) {
	if len(a.retired) == 0 {
		return
	}
	maps, err := t.Maps()
	if err != nil {
		return // they wait for the next time
	}
	kept := a.retired[:0]
	for _, s := range a.retired {
		if slices.ContainsFunc(maps, func(m Mapping) bool { return overlaps(m, s) }) {
			kept = append(kept, s)
			continue
		}
		a.punch(s) // the program may have written to it since
		a.insert(s)
	}
	a.retired = kept
}

func overlaps(m Mapping, s span) bool {
	return m.Offset < s.off+s.n && s.off < m.Offset+m.Length
}

// insert puts s into the free list, joined with its neighbours.
func (a *arena) insert(s span) {
	i, _ := slices.BinarySearchFunc(a.free, s.off, func(f span, off uint64) int {
		if f.off < off {
			return -1
		}
		return 1
	})
	a.free = slices.Insert(a.free, i, s)
	if i+1 < len(a.free) && s.off+s.n == a.free[i+1].off {
		a.free[i].n += a.free[i+1].n
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].off+a.free[i-1].n == s.off {
		a.free[i-1].n += a.free[i].n
		a.free = slices.Delete(a.free, i, i+1)
	}
}

// punch gives the memory of s back, so that it reads as zeros.
func (a *arena) punch(s span) {
	err := unix.Fallocate(a.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(s.off), int64(s.n))
	if err != nil {
		clear(a.mem[s.off : s.off+s.n])
	}
}
