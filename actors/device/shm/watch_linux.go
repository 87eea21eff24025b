package shm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// A watcher's pauses between two rounds while there is something to wait for: a process that ends drops its
// bell and its locks one after the other.
const (
	firstPause = 4 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// watcher knows, for every queue pair of a device, which others it communicates
// with, and reports their deaths to it. Its goroutine runs while the device is open, and waits for
// news: the end of the last reader of a peer's bell (EPOLLERR). It has a timer only while there
// is a doubt about a peer, or files of a dead process may be left.
type watcher struct {
	directory *directory
	mappings  *mappings
	news      *os.File     // an epoll descriptor, of the peers' bells
	epoll     int          // its number
	again     *clock.Alarm // calls round
	done      chan struct{}

	mu      sync.Mutex
	ports   map[*port]struct{}
	peers   map[ident]*peer
	doubted map[ident]*peer // those whose locks the next round asks
	pause   time.Duration   // before the round after it
	due     bool            // there will be one by itself
	closed  bool
}

// peer is another queue pair as its files: the segment, for its lock, and the bell. The watcher and links
// have it.
type peer struct {
	fd    int
	bell  int
	users users

	// The watcher's:
	with map[*port]struct{} // whom its death is reported to
	deaf bool               // the bell has said all that it can, or says nothing: rounds ask the lock
}

// alive reports whether the owner holds its lock.
func (pe *peer) alive() bool { return lockedByOther(pe.fd) }

func (pe *peer) release() {
	if !pe.users.quit() {
		return
	}
	_ = unix.Close(pe.fd)
	_ = unix.Close(pe.bell)
}

func (f *directory) startWatcher(vs *mappings) (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shm: epoll: %w", err)
	}
	_ = unix.SetNonblock(fd, true) // so that Go's poller takes it
	w := &watcher{
		directory: f, mappings: vs, news: os.NewFile(uintptr(fd), "shm-watch"), epoll: fd, done: make(chan struct{}),
		ports: make(map[*port]struct{}), peers: make(map[ident]*peer), doubted: make(map[ident]*peer),
		pause: firstPause,
	}
	w.again = clock.NewAlarm(w.round)
	conn, err := w.news.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shm: epoll: %w", err), w.news.Close())
	}
	go w.run(conn)
	return w, nil
}

func (w *watcher) run(conn syscall.RawConn) {
	defer close(w.done)
	for conn.Read(w.collect) == nil {
		w.round()
	}
}

// collect takes the news from the epoll descriptor; false: there is none. What has no reader any more is
// news once (EPOLLONESHOT).
func (w *watcher) collect(fd uintptr) bool {
	var events [64]unix.EpollEvent
	n, err := unix.EpollWait(int(fd), events[:], 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.EpollWait(int(fd), events[:], 0)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range events[:max(n, 0)] {
		id := ident(uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd)))
		if pe := w.peers[id]; pe != nil {
			pe.deaf = true
			w.doubted[id] = pe
			w.pause = firstPause
		}
	}
	return n != 0 // after a failure it is tried again
}

// listen has the end of the owner of a peer's bell be news.
func (w *watcher) listen(id ident, pe *peer) {
	e := unix.EpollEvent{Events: unix.EPOLLONESHOT, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
	if unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, pe.bell, &e) != nil {
		pe.deaf = true
		w.doubted[id] = pe
		w.soon()
	}
}

// round looks at what there is to be looked at.
func (w *watcher) round() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.due = false
	for p := range w.ports {
		if p.entered.Swap(false) && !p.watched(func() { w.lookAtSenders(p) }) {
			ringDoorbell(p.seg.doorbell) // Poll will find it
		}
	}
	for id, pe := range w.doubted {
		if pe.alive() {
			if !pe.deaf {
				delete(w.doubted, id)
			}
			continue
		}
		w.directory.remove(pe.fd, segmentName(id.qpn()), id.gen())
		w.directory.expectOrphans()
		w.forget(id, pe)
		for p := range pe.with {
			p.reportDeath(id)
		}
	}
	if w.directory.lookForOrphans() {
		w.mappings.dropIf(func(v *mapping) bool { return !w.directory.named(v) })
	}
	w.mappings.prune()
	w.goOn()
}

// goOn sees to the next round, if there is to be one.
func (w *watcher) goOn() {
	wanted := len(w.doubted) > 0 || w.directory.roundsLeft.Load() > 0
	for p := range w.ports {
		wanted = wanted || p.entered.Load()
	}
	if !wanted {
		w.pause = firstPause
		return
	}
	w.due = true
	w.again.Once(w.pause)
	w.pause = min(4*w.pause, lastPause)
}

// soon has a round come at once. Any goroutine may call it.
func (w *watcher) soon() { w.again.Once(0) }

// doubt has the lock of a peer asked.
func (w *watcher) doubt(id ident) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pe := w.peers[id]; pe != nil {
		w.doubted[id] = pe
		w.soon()
	}
}

// lookAtSenders follows the senders that have entered p's sender table since.
func (w *watcher) lookAtSenders(p *port) {
	for i := range p.rx.senders {
		who := &p.rx.senders[i].who
		id := ident(who.Load())
		switch pe := w.peers[id]; {
		case id == 0 || id == p.self:
		case !id.valid():
			who.CompareAndSwap(uint64(id), 0) // free
		case pe != nil:
			pe.with[p] = struct{}{}
		default:
			w.trace(p, id)
		}
	}
}

// trace finds the segment of a sender, which is older than its entry: if it is
// not there, or another's, or its lock is free, then the sender is dead.
func (w *watcher) trace(p *port, id ident) {
	s, err := w.directory.find(segmentName(id.qpn()))
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, errNoSegment) || err == nil && (s.hdr.ident() != id || !s.alive()):
		w.directory.expectOrphans()
		p.reportDeath(id)
	case err == nil:
		if s.doorbell, err = w.directory.openDoorbell(id.gen(), unix.O_WRONLY); err == nil {
			w.followLocked(p, id, s.fd, s.doorbell)
			return
		}
		fallthrough
	default: // it is about to end, or we are out of descriptors, say: look again next time
		p.entered.Store(true)
	}
	if s != nil {
		s.close()
	}
}

// follow reports the death of id to p. fd is id's segment file, bell its bell. The caller releases the peer.
func (w *watcher) follow(p *port, id ident, fd, bell int) *peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	pe := w.followLocked(p, id, fd, bell)
	pe.users.join()
	return pe
}

func (w *watcher) followLocked(p *port, id ident, fd, bell int) *peer {
	pe := w.peers[id]
	if pe == nil {
		pe = &peer{fd: fd, bell: bell, with: make(map[*port]struct{})}
		pe.users.n.Store(1)
		w.peers[id] = pe
		w.listen(id, pe)
	} else {
		_ = unix.Close(fd)
		_ = unix.Close(bell)
	}
	pe.with[p] = struct{}{}
	return pe
}

// forget has the watcher know a peer no more.
func (w *watcher) forget(id ident, pe *peer) {
	delete(w.peers, id)
	delete(w.doubted, id)
	pe.release()
}

func (w *watcher) add(p *port) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports[p] = struct{}{}
	w.soon() // what create has found may be a dead process's
}

// drop forgets p. Afterwards the watcher does not touch its memory.
func (w *watcher) drop(p *port) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ports, p)
	for id, pe := range w.peers {
		if delete(pe.with, p); len(pe.with) == 0 {
			w.forget(id, pe)
		}
	}
	if len(w.ports) == 0 {
		w.mappings.clear() // they would never be checked again
	}
}

func (w *watcher) stop() {
	w.mu.Lock()
	w.closed = true // first: a round would use the descriptor
	w.again.Stop()
	w.mu.Unlock()
	_ = w.news.Close()
	<-w.done
}

// orphans makes the watcher look for files of dead processes.
func (w *watcher) orphans() {
	w.directory.expectOrphans()
	w.soon()
}

func (w *watcher) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ports)
}

// answer shows processes that ask that the owner runs, and has the watcher look at the sender table then: a
// process that enters it asks.
func (p *port) answer() {
	if n := p.rx.ctl.asked.Load(); n != p.answered {
		p.answered = n
		p.rx.ctl.answered.Store(n)
		p.entered.Store(true)
		p.dev.watch.soon()
	}
}

// reportDeath reports the death of id to p and wakes it.
func (p *port) reportDeath(id ident) {
	p.deaths.put(id)
	p.watched(func() {
		if s := &p.rx.ctl.state; s.Load()&(1<<sleepShift-1) == parked {
			s.Or(ringing)
		} else {
			s.Store(running) // whatever a bug has made of it
		}
	})
	ringDoorbell(p.seg.doorbell)
}

// watched calls f, which touches the port's own segment, from the watcher. False: that was
// cut.
func (p *port) watched(f func()) bool {
	if p.seg.isSealed() {
		f()
		return true
	}
	return guarded(f, func(ft fault) bool { return ft.in(p.seg.mem) })
}

// knownPeer is a queue pair that sent to us or to which we sent.
type knownPeer struct {
	qkey uint32
	gid  device.GID
	left bool // it was found to be closed in order
}

// senderInfo is a sender whose packets we have taken.
type senderInfo struct {
	who ident
	gid device.GID
	ah  device.AH // of gid; UnknownAH: there is none
}

// deaths carries the idents of dead queue pairs from the watcher to a port's shard.
// An ident is in it once, however often it is put.
type deaths struct {
	any  atomic.Bool
	mu   sync.Mutex
	dead map[ident]struct{}
}

func (n *deaths) put(id ident) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead == nil {
		n.dead = make(map[ident]struct{})
	}
	n.dead[id] = struct{}{}
	n.any.Store(true)
}

// take empties it.
func (n *deaths) take() (dead map[ident]struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	dead, n.dead = n.dead, nil
	n.any.Store(false)
	return dead
}

// deadPeer is a dead queue pair whose packets and claims are still in our ring.
type deadPeer struct {
	id     ident
	entry  int    // in our sender table, or -1
	end    uint64 // it has nothing at or after this position
	report bool
	knownPeer
}

// hear notes the sender of a first packet.
func (p *port) hear(entry int, who ident) {
	a, ok := p.known[who]
	if !ok {
		a = knownPeer{qkey: p.rx.senders[entry].qkey.Load(), gid: p.rx.origins[entry].load()}
		p.known[who] = a
		p.answer() // it has entered our table
	}
	ah, ok := p.handles[a.gid]
	if !ok {
		ah = device.UnknownAH
	}
	p.heard[entry] = senderInfo{who, a.gid, ah}
	if p.heardCount++; p.heardCount > 1 {
		p.rx.patience = patienceMany
	}
}

// nameSenders notes that the senders with gid have the address handle ah now.
func (p *port) nameSenders(gid *device.GID, ah device.AH) {
	left := p.heardCount // they are at the front, as a rule
	for i := range p.heard {
		if left <= 0 {
			break
		}
		v := &p.heard[i]
		if v.who == 0 {
			continue
		}
		if left--; v.gid == *gid {
			v.ah = ah
		}
	}
}

// takeDeaths starts to bury the queue pairs that the watcher reported dead. The list is not
// locked meanwhile: to disconnect may find memory that was cut, which ends queue pairs as well.
func (p *port) takeDeaths() {
	for id := range p.deaths.take() {
		if slices.ContainsFunc(p.dying, func(f deadPeer) bool { return f.id == id }) {
			continue // the watcher has met its entry again
		}
		if l := p.links.get(id.qpn()); l != nil && l.id == id {
			p.disconnect(l)
		}
		f := deadPeer{id: id, entry: p.entryOf(id), end: p.rx.end}
		a, ok := p.known[id]
		f.report, f.knownPeer = ok, a
		f.left = a.left || f.entry >= 0 && p.rx.senders[f.entry].flags.Load()&bye != 0
		delete(p.known, id)
		if f.report || f.entry >= 0 {
			p.dying = append(p.dying, f)
		}
	}
}

// entryOf finds the entry of id in our sender table.
func (p *port) entryOf(id ident) int {
	for i := range p.rx.senders {
		if ident(p.rx.senders[i].who.Load()) == id {
			return i
		}
	}
	return -1
}

// buryDead finishes with the dead queue pairs whose packets have all been taken:
// the slots that they claimed are posted again, their entries are free, and OpGone
// follows their last packet.
func (p *port) buryDead(c []device.Completion) int {
	n := 0
	var pk packet
	for n < len(c) && p.rx.nextAside(&pk) {
		n += p.accept(&pk, &c[n])
	}
	for len(p.dying) > 0 && n < len(c) {
		f := p.dying[0]
		if !p.rx.drained(f.end) {
			break
		}
		if f.entry >= 0 && ident(p.rx.senders[f.entry].who.Load()) == f.id {
			for p.rx.reclaim(f.entry, &pk) {
				p.reclaimed++
				p.repost(pk.slot)
			}
			if p.heard[f.entry].who != 0 {
				p.heard[f.entry] = senderInfo{}
				p.heardCount--
			}
			p.rx.senders[f.entry].flags.Store(0)
			p.rx.senders[f.entry].who.CompareAndSwap(uint64(f.id), 0)
		}
		p.dying = p.dying[1:]
		if f.report {
			c[n] = device.Completion{
				Op: device.OpGone, SrcQPN: f.id.qpn(), SrcGID: f.gid, QKey: f.qkey, Left: f.left,
			}
			n++
		}
	}
	return n
}
