package engine

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// CQ is a completion queue.
type CQ struct {
	e      *Engine
	cfg    CQConfig
	where  string
	usable bool // the configuration makes sense, and it is open

	produced []uint32 // by sub-queue
	total    uint32   // of them together
	consumed uint32   // by the doorbell
	word     uint32   // of the doorbell, as last seen; 0: it never rang
	full     bool     // an overrun was found
	scratch  [abi.WideCQELen]byte

	armed, fired bool
	due          bool  // an event: it was armed when a completion came
	sn           uint8 // by the doorbell
	firedSN      uint8 // of the last event, if fired
	events       uint32
}

// NewCQ makes a completion queue. One whose configuration makes no sense is refused
// by NewQP.
func (e *Engine) NewCQ(cfg CQConfig) *CQ {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lastCQ++
	c := &CQ{e: e, cfg: cfg, where: fmt.Sprintf("cq %d", e.lastCQ)}
	c.usable = powerOfTwo(cfg.Entries, 1<<16) && (cfg.EntrySize == abi.CQELen || cfg.EntrySize == abi.WideCQELen) &&
		cfg.SubCQs > 0 && cfg.SubCQs <= 1<<8 && aligned(cfg.Ring, cfg.SubCQs*cfg.Entries*cfg.EntrySize) &&
		(cfg.Doorbell == nil || aligned(cfg.Doorbell, 4))
	if c.usable {
		c.produced = make([]uint32, cfg.SubCQs)
	}
	e.cqs = append(e.cqs, c)
	return c
}

// Close ends it: nothing completes there any more, and no event is reported.
func (c *CQ) Close() {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.usable = false
	c.e.cqs = forget(c.e.cqs, c)
}

// Events is how many events were reported, read by the program or not.
func (c *CQ) Events() uint32 {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.events
}

// noise is in the upper bits of the ids of sends, which mean nothing in a queue of short ids
// (there are no others): a program that reads them must fail here, not on a card.
const noise = 0xbad_1de5_beef

// put writes a completion. A device may overwrite entries that were not consumed;
// the program then misses whole laps, but no entry is ever half of one.
func (c *CQ) put(sub int, cqe *abi.CQE) {
	if !c.usable {
		return
	}
	how := c.e.cfg.Faults.Completion(cqe, c.cfg.Entries)
	for range how.Times {
		c.write(sub, cqe, how.Flip)
	}
}

// write writes a completion; flip: with a phase that is not its lap's.
func (c *CQ) write(sub int, cqe *abi.CQE, flip bool) {
	if c.e.cfg.ExactDoorbells && c.word != 0 {
		c.checkRoom()
	}
	// Before the completion is there: the program may take it, and ring, before the next step.
	c.look()
	c.due = c.due || c.armed
	n := c.produced[sub]
	c.produced[sub]++
	c.total++
	lap := n >> bits.TrailingZeros(uint(c.cfg.Entries))
	cqe.Phase = (lap&1 == 0) != flip
	at := (sub*c.cfg.Entries + int(n)&(c.cfg.Entries-1)) * c.cfg.EntrySize
	e := *cqe
	if e.Queue == abi.SendQueue {
		e.ReqID |= noise << 16
	}
	b := e.Append(c.scratch[:0], c.cfg.EntrySize)
	dst := c.cfg.Ring[at : at+c.cfg.EntrySize]
	copy(dst[4:], b[4:])
	store(dst, binary.NativeEndian.Uint32(b)) // at once, and after the rest: it has the phase
}

// checkRoom finds an overrun, once until completions are consumed. It relies on the
// doorbell: libraries that find a queue empty (rdma-core's end_poll) don't ring it, so
// this is for programs that always do.
func (c *CQ) checkRoom() {
	c.look()
	if c.total-c.consumed < uint32(c.cfg.Entries*c.cfg.SubCQs) {
		c.full = false
		return
	}
	c.e.stats.Overruns++
	if !c.full {
		c.e.find(RuleCQOverrun, c.where, "%d completions, of which %d were consumed", c.total, c.consumed)
	}
	c.full = true
}

// step reads the doorbell and reports an event that is due.
func (c *CQ) step() bool {
	if !c.usable || c.cfg.Doorbell == nil {
		return false
	}
	c.look()
	if !c.due && (!c.armed || c.total == c.consumed) || c.cfg.Notify == nil {
		return false
	}
	c.armed, c.due, c.fired, c.firedSN = false, false, true, c.sn
	c.events++
	c.e.stats.Events++
	c.cfg.Notify()
	return true
}

// look reads the doorbell.
func (c *CQ) look() {
	if c.cfg.Doorbell == nil {
		return
	}
	w := load(c.cfg.Doorbell)
	if w == c.word {
		return
	}
	c.word = w
	d := abi.ParseCQDoorbell(w)
	if d.Reserved {
		c.e.find(RuleCQDoorbell, c.where, "%#08x", w)
	}
	// The count may be behind by many laps of its 16 bits, but never by more than
	// the queue holds, and not ahead.
	unread := uint32(uint16(c.total) - d.Consumed)
	if unread > 1<<15 && c.cfg.Entries*c.cfg.SubCQs <= 1<<15 {
		c.e.find(RuleCQDoorbell, c.where, "%d consumed (modulo 65536) of %d", d.Consumed, c.total)
	} else {
		c.consumed = c.total - unread
	}
	c.sn = d.CmdSN
	if (d.Arm || !c.e.cfg.ExactDoorbells) && !(c.fired && c.firedSN == c.sn) {
		c.armed = true
	}
}
