package shm

import (
	"errors"
	"math/bits"
	"sync"

	"github.com/efactor/efactor/actors/device"
)

// restFor is how many later ranges of its class must have been returned before a
// range is used again.
const restFor = 16

// ranges hands out address ranges in which regions are mapped. A returned range
// keeps blank memory at its addresses and rests, so that late readers of a closed
// region read zeroes, and not another region's data. The lengths are powers of two:
// however many regions come and go, there are no more ranges than were in use at
// one time, and those that rest.
type ranges struct {
	mu      sync.Mutex
	closed  bool
	all     [][]byte
	resting [bits.UintSize][][]byte // by the logarithm of the length; oldest first
}

// take returns a range of at least n bytes with undefined contents.
func (r *ranges) take(n int) ([]byte, error) {
	class := bits.Len(uint(n - 1))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, device.ErrClosed
	}
	if old := r.resting[class]; len(old) > restFor {
		r.resting[class] = old[1:]
		return old[0], nil
	}
	mem, err := addresses(1<<class, largePage-pageBytes) // before the file there is a page for its lock
	if err != nil {
		return nil, err
	}
	r.all = append(r.all, mem)
	return mem, nil
}

// rest takes a range back, after it was made blank.
func (r *ranges) rest(mem []byte) {
	class := bits.Len(uint(len(mem) - 1))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resting[class] = append(r.resting[class], mem)
}

// close releases the addresses.
func (r *ranges) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var errs []error
	for _, mem := range r.all {
		errs = append(errs, release(mem))
	}
	r.all = nil
	clear(r.resting[:])
	return errors.Join(errs...)
}
