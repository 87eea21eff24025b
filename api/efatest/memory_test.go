package efatest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// buffers are reused, full of poison so that writes show while no operation has
// them.
type buffers struct {
	free [32][][]byte
}

const poison = 0xdd

var poisoned = bytes.Repeat([]byte{poison}, 1<<16)

func fillPoison(b []byte) {
	for len(b) > 0 {
		b = b[copy(b, poisoned):]
	}
}

func isPoison(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(poisoned))
		if !bytes.Equal(b[:n], poisoned[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// sizeClass is the power of two that a buffer of n bytes takes.
func sizeClass(n int) int { return bits.Len(uint(max(n, 64) - 1)) }

// take takes a buffer of class c that has been given before; nil: there is none.
func (p *buffers) take(r *run, c int) []byte {
	l := len(p.free[c])
	if l == 0 {
		return nil
	}
	b := p.free[c][l-1]
	p.free[c] = p.free[c][:l-1]
	if !isPoison(b) {
		r.fail("somebody wrote to a buffer after its operation had ended")
	}
	return b
}

func (p *buffers) get(r *run, n int) []byte {
	c := sizeClass(n)
	b := p.take(r, c)
	if b == nil {
		b = make([]byte, 1<<c)
		fillPoison(b)
	}
	return b[:n]
}

func (p *buffers) put(b []byte) {
	b = b[:cap(b)]
	fillPoison(b)
	c := bits.Len(uint(len(b) - 1))
	p.free[c] = append(p.free[c], b)
}

// check checks the contents of the pool at the end.
func (p *buffers) check(r *run) {
	for _, list := range p.free {
		for _, b := range list {
			if !isPoison(b) {
				r.fail("somebody wrote to a buffer after its operation had ended")
			}
		}
	}
}

// pool is a host's registered memory for buffers.
type pool struct {
	buffers
	region *efa.MemoryRegion
	rest   []byte // never used
}

// lend returns a buffer of n bytes; nil: there is no room.
func (p *pool) lend(r *run, n int) []byte {
	c := sizeClass(n)
	if b := p.take(r, c); b != nil {
		return b[:n]
	}
	if len(p.rest) < 1<<c {
		return nil
	}
	b := p.rest[: 1<<c : 1<<c]
	p.rest = p.rest[1<<c:]
	return b[:n]
}

// buffer is memory of an operation.
type buffer struct {
	b      []byte
	host   *host
	pooled bool
	region *efa.MemoryRegion // of this one alone
}

// take gets a buffer that lies where it is wished for, if the device and the host's
// memory allow it.
func (n *node) take(size int, where memory) *buffer {
	r := n.run
	x := &buffer{host: n.host}
	if where == pooled {
		if x.b = n.host.pool.lend(r, size); x.b != nil {
			x.pooled = true
			return x
		}
	}
	x.b = r.pool.get(r, size)
	if where >= own && size > 0 {
		var err error
		x.region, err = n.host.dom.Register(x.b, 0)
		if err != nil && !errors.Is(err, efa.ErrNoMR) && !(n.doomed && errors.Is(err, efa.ErrClosed)) {
			r.fail("register %d B at %d: %w", size, n.id, err)
		}
		if err != nil {
			r.stats["unregistered"]++
		}
	}
	return x
}

// closeLater has a program of its own close the buffer's memory in the middle.
func (n *node) closeLater(x *buffer, d time.Duration) {
	m := x.region
	if m == nil {
		return
	}
	n.run.w.Go(fmt.Sprintf("close memory at %d", n.id), func(context.Context) error {
		if err := n.run.w.Sleep(d); err != nil {
			return err
		}
		n.run.stats["memory closed"]++
		return m.Close()
	})
}

// give gives a buffer back.
func (n *node) give(x *buffer) {
	switch {
	case x.pooled:
		x.host.pool.put(x.b)
		return
	case x.region != nil:
		if err := x.region.Close(); err != nil {
			n.run.fail("close a buffer's memory at %d: %w", n.id, err)
		}
	}
	n.run.pool.put(x.b)
}

// pieces cuts b into n parts.
func pieces(b []byte, n int) [][]byte {
	var list [][]byte
	for i := range n {
		list = append(list, b[len(b)*i/n:len(b)*(i+1)/n])
	}
	return list
}
