package shm

import "github.com/efactor/efactor/actors/device"

// exposure is what a port knows of memory in files, which can be cut: its own, and that of
// others. As long as there is none, nothing is guarded and nothing costs time.
type exposure struct {
	some   bool // there is, or was
	broken bool // our own was cut
	told   bool // and the owner knows
}

// safely calls f, which touches segments. False: one was cut; what is lost by that is
// settled. extra is one that is not in use yet, or nil.
func (p *port) safely(f func(), extra []byte) bool {
	if !p.exposed.some {
		f()
		return true
	}
	if guarded(f, func(ft fault) bool { return p.lost(ft, extra) }) {
		return true
	}
	p.links.each(func(l *link) {
		if l.broken {
			p.lose(l)
		}
	})
	return false
}

// lost notes whose memory has faulted.
func (p *port) lost(ft fault, extra []byte) bool {
	found := ft.in(extra)
	p.links.each(func(l *link) {
		if ft.in(l.mem) {
			l.broken, found = true, true
		}
	})
	if p.seg.mem != nil && ft.in(p.seg.mem) {
		p.exposed.broken, found = true, true
		// Packets that are being read turn to zeroes. If that cannot be had, there is
		// no way to go on.
		return blank(p.seg.mem) == nil
	}
	return found
}

// sendSafely is Send with memory that can be cut.
func (p *port) sendSafely(wr *device.SendWR) (st device.Status) {
	if !p.safely(func() { st = p.put(wr, marksOf(wr)) }, nil) {
		st = device.StatusBadDestQPN
	}
	return st
}

// pollSafely is Poll. When our own memory was cut it yields OpFatal, and that alone.
func (p *port) pollSafely(c []device.Completion) (n int) {
	if !p.exposed.broken && p.safely(func() { n = p.poll(c) }, nil) {
		return n
	}
	if !p.exposed.broken || p.exposed.told || len(c) == 0 {
		return 0
	}
	p.exposed.told = true
	c[0] = device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
	return 1
}
