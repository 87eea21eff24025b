package engine

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// PD is a protection domain: memory regions and address handles that queue pairs
// of one program share.
type PD struct {
	e      *Engine
	space  memory.Space
	number uint16
	closed bool

	byGID map[device.GID]*ahEntry
}

// NewPD makes a protection domain over the memory of space.
func (e *Engine) NewPD(space memory.Space) *PD {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastPD++
	e.pds++
	return &PD{e: e, space: space, number: e.lastPD, byGID: make(map[device.GID]*ahEntry)}
}

// Number is the domain's.
func (p *PD) Number() uint16 { return p.number }

// Close frees the domain, with the address handles that are left. Regions and
// queue pairs are to be closed before.
func (p *PD) Close() {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.e.pds--
	for _, a := range p.e.ahs { // in order of the numbers: runs repeat
		if a != nil && a.pd == p {
			p.e.dropAH(a)
		}
	}
}

// ahEntry is the meaning of an address handle number.
type ahEntry struct {
	pd     *PD
	gid    device.GID
	number uint16
	refs   int
}

// AH is one use of an address handle.
type AH struct {
	entry  *ahEntry
	closed bool
}

// CreateAH returns the handle of gid: the same one for the same GID, counted.
// device.ErrNoMemory: there are too many.
func (p *PD) CreateAH(gid device.GID) (*AH, error) {
	e := p.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("%w: closed protection domain", ErrConfig)
	}
	a := p.byGID[gid]
	if a == nil {
		n, ok := e.freeAH()
		if !ok {
			return nil, fmt.Errorf("%w: %d address handles", device.ErrNoMemory, len(e.ahs)-e.freeAHs)
		}
		a = &ahEntry{pd: p, gid: gid, number: n}
		e.ahs[n] = a
		p.byGID[gid] = a
	}
	a.refs++
	return &AH{entry: a}, nil
}

// freeAH takes the lowest number that is free.
func (e *Engine) freeAH() (uint16, bool) {
	if e.freeAHs > 0 {
		for i, a := range e.ahs {
			if a == nil {
				e.freeAHs--
				return uint16(i), true
			}
		}
	}
	if len(e.ahs) >= limit(e.cfg.Profile.MaxAH, 0xffff) { // 0xffff is no handle
		return 0, false
	}
	e.ahs = append(e.ahs, nil)
	return uint16(len(e.ahs) - 1), true
}

// Number is the handle's number in WQEs and CQEs.
func (a *AH) Number() uint16 { return a.entry.number }

// Close drops one use. With the last, the queue pairs forget the handle.
func (a *AH) Close() {
	e := a.entry.pd.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.closed || e.ahs[a.entry.number] != a.entry { // its domain was closed
		return
	}
	a.closed = true
	if a.entry.refs--; a.entry.refs == 0 {
		e.dropAH(a.entry)
	}
}

func (e *Engine) dropAH(a *ahEntry) {
	for _, q := range e.qps {
		if q.cfg.PD == a.pd {
			q.routes.drop(q.dev, a.number)
		}
	}
	e.ahs[a.number] = nil
	e.freeAHs++
	delete(a.pd.byGID, a.gid)
}

// ah finds the address handle that a WQE names; nil: there is none in p.
func (p *PD) ah(number uint16) *ahEntry {
	if int(number) >= len(p.e.ahs) {
		return nil
	}
	if a := p.e.ahs[number]; a != nil && a.pd == p {
		return a
	}
	return nil
}
