//go:build linux

package uverbs

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// handles are the address handles of a device: one for each GID, however many queue pairs
// use it, because a device must not be asked twice for one.
type handles struct {
	ctx *context

	mu    sync.Mutex
	byGID map[device.GID]*handle

	// gids are by number, for the senders of packets: a number keeps its GID when the
	// handle is gone, as completions may still name it.
	gids [1 << 8]atomic.Pointer[[1 << 8]atomic.Pointer[device.GID]]
}

type handle struct {
	object uint32
	number uint16
	refs   int
}

// take returns the number of gid's handle.
func (h *handles) take(gid device.GID) (uint16, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.byGID[gid]; a != nil {
		a.refs++
		return a.number, nil
	}
	a, err := h.ctx.createAH(gid)
	if err != nil {
		return 0, err
	}
	for _, other := range h.byGID {
		if other.number == a.number {
			_ = h.ctx.destroyAH(a) // the lie is the error
			return 0, fmt.Errorf("%w: address handle %d twice", errLies, a.number)
		}
	}
	h.byGID[gid] = a
	h.remember(a.number, gid)
	return a.number, nil
}

// give drops one use of gid's handle.
func (h *handles) give(gid device.GID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.byGID[gid]
	if a.refs--; a.refs > 0 {
		return nil
	}
	delete(h.byGID, gid)
	return h.ctx.destroyAH(a)
}

func (h *handles) remember(number uint16, gid device.GID) {
	part := h.gids[number>>8].Load()
	if part == nil {
		part = new([1 << 8]atomic.Pointer[device.GID])
		h.gids[number>>8].Store(part)
	}
	part[number&0xff].Store(&gid)
}

// gid is what a number means, or meant last; zero: it never was one. Any goroutine.
func (h *handles) gid(number uint16) device.GID {
	if part := h.gids[number>>8].Load(); part != nil {
		if gid := part[number&0xff].Load(); gid != nil {
			return *gid
		}
	}
	return device.GID{}
}

func (c *context) createAH(gid device.GID) (*handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in := abi.CreateAH{PD: c.pd, GID: gid, IsGlobal: 1, Port: abi.PortNumber}
	c.cmd.write(abi.CmdCreateAH, in.Append(nil))
	object := c.cmd.out(abi.InvokeCoreOut, 4)
	out := c.cmd.out(abi.AttrUHWOut, abi.CreateAHRespLen)
	if err := c.cmd.run(c.file); err != nil {
		return nil, fmt.Errorf("uverbs: address handle of %v: %w", gid, err)
	}
	var r abi.CreateAHResp
	_ = r.Parse(out)
	return &handle{object: le.Uint32(object), number: r.Number, refs: 1}, nil
}

func (c *context) destroyAH(a *handle) error {
	return c.destroy("address handle", abi.ObjectAH, abi.AHDestroy, a.object, 0)
}

// peers are the address handles that a queue pair may name.
type peers struct {
	all  *handles
	refs []int32 // by number, of this queue pair
	gids []device.GID
}

// knows reports whether number is one of the queue pair's.
func (p *peers) knows(number device.AH) bool {
	return int(number) < len(p.refs) && p.refs[number] > 0
}

func (p *peers) create(gid device.GID) (device.AH, error) {
	n, err := p.all.take(gid)
	if err != nil {
		return device.UnknownAH, err
	}
	if n == abi.UnknownAH {
		return device.UnknownAH, fmt.Errorf("%w: address handle %#x (%w)", errLies, n, p.all.give(gid))
	}
	for int(n) >= len(p.refs) {
		p.refs, p.gids = append(p.refs, 0), append(p.gids, device.GID{})
	}
	p.refs[n]++
	p.gids[n] = gid
	return device.AH(n), nil
}

func (p *peers) destroy(ah device.AH) error {
	if !p.knows(ah) {
		return device.ErrBadAH
	}
	p.refs[ah]--
	return p.all.give(p.gids[ah])
}

// close drops all uses.
func (p *peers) close() (first error) {
	for n := range p.refs {
		for ; p.refs[n] > 0; p.refs[n]-- {
			if err := p.all.give(p.gids[n]); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}
