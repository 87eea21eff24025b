package arena

import (
	"errors"
	"fmt"
)

// ErrNotOut is returned when a block is put back that isn't out.
var ErrNotOut = errors.New("arena: block is not out")

// Pool hands out blocks of one size from a slab. A block has an index, by which it
// is returned and can be named elsewhere. Nothing allocates after NewPool. A Pool
// belongs to one goroutine at a time.
type Pool struct {
	arena     *Arena
	blockSize int
	free      []uint32 // indices, the next one to go out last
	out       []bool
}

// NewPool returns a pool of that many blocks. Blocks lie one after the other, so
// they are aligned as blockSize is.
func NewPool(blockSize, blocks int) (*Pool, error) {
	if blockSize <= 0 || blocks <= 0 || blocks > 1<<31 || blockSize > maxSize/blocks {
		return nil, fmt.Errorf("%w: %d blocks of %d bytes", ErrSize, blocks, blockSize)
	}
	a, err := New(blockSize * blocks)
	if err != nil {
		return nil, err
	}
	p := &Pool{arena: a, blockSize: blockSize, free: make([]uint32, blocks), out: make([]bool, blocks)}
	for i := range p.free {
		p.free[i] = uint32(blocks - 1 - i) // low indices go out first
	}
	return p, nil
}

// Get takes a block; nil and -1 if all are out. Its contents are those of its
// last use.
func (p *Pool) Get() (block []byte, index int) {
	n := len(p.free)
	if n == 0 {
		return nil, -1
	}
	index = int(p.free[n-1])
	p.free = p.free[:n-1]
	p.out[index] = true
	return p.Block(index), index
}

// Put returns a block to the pool.
func (p *Pool) Put(index int) error {
	if index < 0 || index >= len(p.out) || !p.out[index] {
		return fmt.Errorf("%w: %d", ErrNotOut, index)
	}
	p.out[index] = false
	p.free = append(p.free, uint32(index))
	return nil
}

// Block returns the block with an index, in use or not; nil if there is none.
func (p *Pool) Block(index int) []byte {
	mem := p.arena.Bytes()
	if index < 0 || index >= len(p.out) || mem == nil {
		return nil
	}
	start, end := index*p.blockSize, (index+1)*p.blockSize
	return mem[start:end:end]
}

// Bytes is the whole slab, for registration with a device.
func (p *Pool) Bytes() []byte { return p.arena.Bytes() }

// Free returns the number of free blocks.
func (p *Pool) Free() int { return len(p.free) }

// Close releases the slab, even if blocks are still in use.
func (p *Pool) Close() error {
	p.free = p.free[:0]
	return p.arena.Close()
}
