//go:build linux

package kernel

import (
	"math"

	"golang.org/x/sys/unix"
)

// object is the object of a handle.
type object interface {
	kind() uint16 // abi.Object...
	busy() bool   // others use it
	// close frees it. t is nil if the program is gone.
	close(t Task)
}

// table has the objects of a context by handle: of all kinds in one, the lowest
// free number first, and 0 is one (uverbs).
type table struct {
	all  []object
	hint int // nothing is free below
}

// next is the handle that the next object gets.
func (t *table) next() uint32 {
	for t.hint < len(t.all) && t.all[t.hint] != nil {
		t.hint++
	}
	return uint32(t.hint)
}

// put gives o the handle that next has returned.
func (t *table) put(h uint32, o object) {
	if int(h) == len(t.all) {
		t.all = append(t.all, nil)
	}
	t.all[h] = o
}

// remove frees a handle.
func (t *table) remove(h uint32) {
	t.all[h] = nil
	t.hint = min(t.hint, int(h))
}

// get finds the object of a kind. ENOENT: there is no such handle; EINVAL: it is
// of another kind.
func (t *table) get(h uint64, kind uint16) (object, unix.Errno) {
	switch {
	case h > math.MaxInt64: // negative, in the kernel's eyes
		return nil, unix.EINVAL
	case h >= uint64(len(t.all)) || t.all[h] == nil:
		return nil, unix.ENOENT
	case t.all[h].kind() != kind:
		return nil, unix.EINVAL
	}
	return t.all[h], 0
}
