//go:build !linux || netpoll

package tcp

import "sync"

// pipeBytes is how much waits in one direction of a relay. It is a power of two.
const pipeBytes = 64 << 10

// pipe is a ring of bytes between the shard, which never waits, and a goroutine, which does.
type pipe struct {
	ring func() // tells the shard what it asked to know

	mu     sync.Mutex
	news   sync.Cond // for the goroutine
	buf    []byte
	begin  uint64 // the bytes [begin, end) of all that ever passed are in it
	end    uint64
	err    error // why the goroutine moves no more
	asked  bool  // the shard found too little
	closed bool  // the shard takes, or puts, no more
	said   bool  // the shard puts no more, but may come for the other direction;
	shut   bool  // the goroutine has not done that yet
}

func (p *pipe) init(ring func()) {
	p.ring = ring
	p.news.L = &p.mu
}

// span is from a position up to the end of the ring, n bytes at most.
func (p *pipe) span(at, n uint64) []byte {
	i := at & (pipeBytes - 1)
	return p.buf[i:min(i+n, pipeBytes)]
}

// answer tells the shard that something has changed, if it asked. The lock is held.
func (p *pipe) answer() {
	if p.asked {
		p.asked = false
		p.ring()
	}
}

// get is the shard's: it moves what came to dst. An error comes with the last bytes.
func (p *pipe) get(dst []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(dst) && p.begin < p.end {
		b := p.span(p.begin, p.end-p.begin)
		p.mu.Unlock() // the goroutine does not touch these
		k := copy(dst[n:], b)
		p.mu.Lock()
		p.begin += uint64(k)
		p.news.Signal()
		n += k
	}
	if p.begin < p.end { // dst is full
		return n, nil
	}
	p.asked = p.err == nil
	return n, p.err
}

// room is the goroutine's: it waits for room, and returns some of it.
func (p *pipe) room() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.end-p.begin == pipeBytes && !p.closed {
		p.news.Wait()
	}
	if p.buf == nil {
		p.buf = make([]byte, pipeBytes)
	}
	if p.closed { // nobody wants it
		p.begin, p.end = 0, 0
	}
	return p.span(p.end, pipeBytes-(p.end-p.begin))
}

// came is the goroutine's: it has put n bytes into the room, or can't any more.
func (p *pipe) came(n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end += uint64(n)
	p.err = err
	p.answer()
}

// put is the shard's: it takes as much of bufs as there is room for.
func (p *pipe) put(bufs [][]byte) (int, error) {
	p.mu.Lock()
	if p.err != nil {
		defer p.mu.Unlock()
		return 0, p.err
	}
	if p.buf == nil {
		p.buf = make([]byte, pipeBytes)
	}
	free := pipeBytes - (p.end - p.begin)
	p.mu.Unlock()
	n, all := uint64(0), true
	for _, b := range bufs {
		for len(b) > 0 && n < free {
			k := copy(p.span(p.end+n, free-n), b)
			b = b[k:]
			n += uint64(k)
		}
		if len(b) > 0 {
			all = false
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end += n; n > 0 {
		p.news.Signal()
	}
	switch {
	case all:
	case p.err != nil:
		return int(n), p.err
	case p.end-p.begin < pipeBytes: // some has left meanwhile
		p.asked = true
		p.answer()
	default:
		p.asked = true
	}
	return int(n), nil
}

// next is the goroutine's: it waits for bytes, and returns some. None: that is all, since the
// pipe was shut (once) or closed (over, after that).
func (p *pipe) next() (b []byte, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.end == p.begin && !p.closed && !p.shut {
		p.news.Wait()
	}
	switch {
	case p.end > p.begin:
	case p.shut:
		p.shut = false
		return nil, false
	default:
		return nil, true
	}
	return p.span(p.begin, p.end-p.begin), false
}

// left is the goroutine's: n bytes of those that next returned have left, or no more can.
func (p *pipe) left(n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin += uint64(n)
	if p.err == nil {
		p.err = err
	}
	p.answer()
}

// finish is the shard's: it puts no more.
func (p *pipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut, p.said = true, true
	p.news.Signal()
}

// close is the shard's last call. What was put still leaves.
func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.news.Signal()
}

// await is the goroutine's: it waits for close.
func (p *pipe) await() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed {
		p.news.Wait()
	}
}

// idle reports whether nothing was put that has not left, and nobody said that no more will be.
func (p *pipe) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begin == p.end && !p.said
}

// state is how many bytes are in it, how many ever were, and why no more are moved.
func (p *pipe) state() (in, ever uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end - p.begin, p.end, p.err
}

// ask is the shard's: it wants to know when bytes can be put.
func (p *pipe) ask() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = p.err == nil
	return p.err
}
