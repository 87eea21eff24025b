package shm

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// link is another queue pair as a destination: its segment, mapped.
type link struct {
	sender
	id   ident
	qkey uint32
	gid  device.GID
	ah   device.AH // by which that gid was reached lately; UnknownAH: none, or none any more
	dom  uint64    // of the device it belongs to
	peer *peer
	mem  []byte

	broken bool // the memory was cut
}

// linkTable finds a link by number with two loads.
type linkTable [256]*[256]*link

func (t *linkTable) get(qpn uint16) *link {
	if page := t[qpn>>8]; page != nil {
		return page[qpn&0xff]
	}
	return nil
}

func (t *linkTable) set(qpn uint16, l *link) {
	page := t[qpn>>8]
	if page == nil {
		page = new([256]*link)
		t[qpn>>8] = page
	}
	page[qpn&0xff] = l
}

func (t *linkTable) each(f func(*link)) {
	for _, page := range t {
		if page == nil {
			continue
		}
		for _, l := range page {
			if l != nil {
				f(l)
			}
		}
	}
}

// near is the link that wr is for, if it is as it was lately; else nil, and reach looks into the matter.
func (t *linkTable) near(wr *device.SendWR) *link {
	l := t.get(wr.QPN)
	if l == nil || l.ah != wr.AH || l.qkey != wr.QKey || l.ended() {
		return nil
	}
	return l
}

// linkTo returns the link that wr is for, and makes it if there is none.
func (p *port) linkTo(wr *device.SendWR) (*link, device.Status) {
	l := p.links.get(wr.QPN)
	if l == nil || l.qkey != wr.QKey {
		return p.connect(wr)
	}
	if l.ah != wr.AH {
		if l.gid != p.routes[wr.AH] {
			return p.connect(wr)
		}
		l.ah = wr.AH
	}
	return l, device.StatusOK
}

// reach is linkTo for a link whose other end exists, as far as can be seen. When
// one was closed or has died, another may have its number by now.
func (p *port) reach(wr *device.SendWR) (*link, device.Status) {
	if p.deaths.any.Load() {
		p.takeDeaths()
	}
	l, st := p.linkTo(wr)
	if st == device.StatusOK && l.ended() {
		p.lose(l)
		if l, st = p.linkTo(wr); st == device.StatusOK && l.ended() {
			st = p.lose(l)
		}
	}
	return l, st
}

// lose drops a link whose other end is closed or dead.
func (p *port) lose(l *link) device.Status {
	p.disconnect(l)
	p.deaths.put(l.id)
	return device.StatusBadDestQPN
}

// connect finds and maps the segment that wr is for, and enters us in its sender table.
// If we have one mapped that has another GID or Q_Key, its process may have been
// replaced.
func (p *port) connect(wr *device.SendWR) (*link, device.Status) {
	qpn, qkey, gid := wr.QPN, wr.QKey, p.routes[wr.AH]
	name := segmentName(qpn)
	s, err := p.dev.directory.find(name)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, errNoSegment) {
		return nil, device.StatusBadDestQPN
	}
	if err != nil {
		return nil, p.reason.unsent(qpn, err)
	}
	defer s.close()
	if old := p.links.get(qpn); old != nil {
		if old.id == s.hdr.ident() {
			return nil, device.StatusBadDestQPN // the GID or the Q_Key is wrong
		}
		p.disconnect(old)
		p.deaths.put(old.id)
	}
	h := &s.hdr
	switch {
	case !s.alive():
		p.dev.directory.remove(s.fd, name, h.gen)
		p.dev.watch.orphans()
		return nil, device.StatusBadDestQPN
	case s.layout != 0:
		return nil, p.reason.mismatch("%s has layout %d of another release, this one layout %d", name, s.layout, version)
	case h.qpn != uint32(qpn) || h.gid != gid || h.qkey != qkey:
		return nil, device.StatusBadDestQPN
	case int(h.mtu) != p.dev.cfg.MTU:
		return nil, p.reason.mismatch("%s has an MTU of %d, this device one of %d", name, h.mtu, p.dev.cfg.MTU)
	}
	r, err := s.mapRing()
	if errors.Is(err, errElsewhere) || errors.Is(err, errHidden) {
		p.dev.mappings.denials.add("a queue pair is unreachable", err)
		return nil, device.StatusUnreachable
	}
	if gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH); err != nil && !gone && errors.As(err, new(unix.Errno)) {
		return nil, p.reason.unsent(qpn, err)
	}
	if err != nil {
		return nil, device.StatusBadDestQPN
	}
	p.cut.possible = p.cut.possible || !s.isSealed()
	l := &link{
		id: h.ident(), qkey: h.qkey, gid: h.gid, ah: wr.AH, dom: h.dom,
		sender: sender{ring: r, self: p.self},
	}
	var same, entered bool
	if !p.safely(func() {
		if same = s.same(); same {
			entered = l.register(p.seg.hdr.qkey, p.gid)
			l.aim(l.ctl.tail.Load())
		}
	}, s.mem) || !same {
		return nil, device.StatusBadDestQPN
	}
	if !entered {
		return nil, device.StatusUnreachable // more senders than its table holds
	}
	bell, err := p.dev.directory.openDoorbell(h.gen, unix.O_WRONLY)
	switch {
	case err == nil:
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, errNoSegment):
		return nil, device.StatusBadDestQPN // it is closing
	default:
		return nil, p.reason.unsent(qpn, err)
	}
	l.peer = p.dev.watch.follow(p, l.id, s.fd, bell)
	s.fd = -1 // the watcher's now
	l.mem, s.mem = s.mem, nil
	_ = p.safely(func() { // memory that is cut is found by the first send
		if l.asleep() {
			l.rings()
			ringDoorbell(l.peer.bell) // so that its watcher knows of us, before we claim anything
			l.roused()
		}
	}, l.mem)
	p.known[l.id] = knownPeer{qkey: l.qkey, gid: l.gid}
	p.links.set(qpn, l)
	return l, device.StatusOK
}

// disconnect forgets a link.
func (p *port) disconnect(l *link) {
	if p.links.get(l.id.qpn()) != l {
		return // it was lost meanwhile
	}
	left := false
	if !l.broken && p.safely(func() { left = l.closedInOrder() }, nil) && left {
		if a, ok := p.known[l.id]; ok {
			a.left = true
			p.known[l.id] = a
		}
	}
	if p.links.get(l.id.qpn()) != l {
		return // it was found to be cut, and lost by that
	}
	p.links.set(l.id.qpn(), nil)
	_ = release(l.mem)
	l.peer.release()
}
