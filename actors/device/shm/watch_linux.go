package shm

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// watchPeriod is how often a device checks the locks of the queue pairs it knows. A
// death is found at the next check, or the one after it if another process holds
// the lock to clean up at that moment.
const watchPeriod = 100 * time.Millisecond

// watcher knows, for every queue pair of a device, which others it communicates
// with, and reports their deaths to it. Its goroutine runs while the device is open,
// and its timer while there is something to look at (idle).
type watcher struct {
	directory *directory
	mappings  *mappings
	timer     *os.File // readable every watchPeriod
	timeFD    int
	done      chan struct{}
	asleep    atomic.Bool // the timer is stopped

	mu    sync.Mutex
	ports map[*port]struct{}
	peers map[ident]*peer
}

// peer is a queue pair of another segment whose lock is watched.
type peer struct {
	fd   int
	with map[*port]struct{}
}

func (f *directory) startWatcher(vs *mappings) (*watcher, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shm: timer: %w", err)
	}
	w := &watcher{
		directory: f, mappings: vs, timer: os.NewFile(uintptr(fd), "shm-watch"), timeFD: fd,
		done:  make(chan struct{}),
		ports: make(map[*port]struct{}), peers: make(map[ident]*peer),
	}
	w.asleep.Store(true)
	vs.onMapped = w.wake
	go w.run()
	return w, nil
}

func (w *watcher) run() {
	defer close(w.done)
	var b [8]byte
	for {
		if _, err := w.timer.Read(b[:]); err != nil {
			return // closed
		}
		w.look()
	}
}

// look is one round.
func (w *watcher) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.ports {
		if !p.watched(func() {
			p.rx.ctl.beat.Add(1)
			if p.stirred.Swap(false) || !p.armed.Load() {
				w.lookAtSenders(p)
			}
			p.mend()
		}) {
			ringDoorbell(p.seg.doorbell) // Poll will find it
		}
	}
	for id, pe := range w.peers {
		if lockedByOther(pe.fd) {
			continue
		}
		w.directory.remove(pe.fd, segmentName(id.qpn()), id.gen())
		w.directory.expectOrphans()
		_ = unix.Close(pe.fd)
		delete(w.peers, id)
		for p := range pe.with {
			p.reportDeath(id)
		}
	}
	if w.directory.lookForOrphans() {
		w.mappings.dropIf(func(v *mapping) bool { return !w.directory.named(v) })
	}
	w.mappings.prune()
	w.sleepIfIdle()
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
// not there, or another's, then the sender is dead.
func (w *watcher) trace(p *port, id ident) {
	s, err := w.directory.find(segmentName(id.qpn()))
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, errNoSegment):
		p.reportDeath(id)
	case err != nil: // out of descriptors, say: look again next time
		p.stirred.Store(true)
	case s.hdr.ident() != id:
		p.reportDeath(id)
		s.close()
	default:
		w.followLocked(p, id, s.fd)
	}
}

// follow reports the death of id to p. The watcher owns fd, id's segment file, from
// now on.
func (w *watcher) follow(p *port, id ident, fd int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.followLocked(p, id, fd)
	w.wake()
}

func (w *watcher) followLocked(p *port, id ident, fd int) {
	pe := w.peers[id]
	if pe == nil {
		pe = &peer{fd: fd, with: make(map[*port]struct{})}
		w.peers[id] = pe
	} else {
		_ = unix.Close(fd)
	}
	pe.with[p] = struct{}{}
}

func (w *watcher) add(p *port) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports[p] = struct{}{}
	w.wake()
}

// drop forgets p. Afterwards the watcher does not touch its memory.
func (w *watcher) drop(p *port) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ports, p)
	for id, pe := range w.peers {
		if delete(pe.with, p); len(pe.with) == 0 {
			_ = unix.Close(pe.fd)
			delete(w.peers, id)
		}
	}
	if len(w.ports) == 0 {
		w.setPeriod(0)
		w.asleep.Store(true)
		w.mappings.clear() // they would never be checked again
	}
}

func (w *watcher) stop() {
	_ = w.timer.Close()
	<-w.done
}

func (w *watcher) setPeriod(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.TimerfdSettime(w.timeFD, 0, &unix.ItimerSpec{Interval: ts, Value: ts}, nil)
}

// wake starts the timer if it is stopped.
func (w *watcher) wake() {
	if w.asleep.CompareAndSwap(true, false) {
		w.setPeriod(watchPeriod)
	}
}

// sleepIfIdle stops the timer if there is nothing to look at. What changes that calls wake.
func (w *watcher) sleepIfIdle() {
	if !w.idle() {
		return
	}
	w.setPeriod(0)
	w.asleep.Store(true)
	if !w.idle() { // it changed before it could see that we sleep
		w.wake()
	}
}

// idle reports whether no queue pair or region of others is known, and all of our queue pairs
// sleep. A sender that enters the table of one that sleeps rings, and does nothing else before
// that would need us if it died.
func (w *watcher) idle() bool {
	return len(w.peers) == 0 && w.mappings.size() == 0 && w.directory.roundsLeft.Load() == 0 && !w.stirred()
}

// stirred reports whether a queue pair is awake, or was since the last look.
func (w *watcher) stirred() bool {
	for p := range w.ports {
		if p.stirred.Load() || !p.armed.Load() {
			return true
		}
	}
	return false
}

// orphans makes the watcher look for files of dead processes.
func (w *watcher) orphans() {
	w.directory.expectOrphans()
	w.wake()
}

func (w *watcher) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ports)
}

// reportDeath reports the death of id to p and wakes it.
func (p *port) reportDeath(id ident) {
	p.deaths.put(id)
	parked := false
	if !p.watched(func() { parked = p.rx.unpark() }) || parked {
		ringDoorbell(p.seg.doorbell)
	}
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

// mend repairs what a dead sender or a bug may have left: a parked flag cleared by
// a sender that died before it rang, or an invalid flag.
func (p *port) mend() {
	switch b := p.rx.ctl.state.Load(); {
	case b == running:
		if p.armed.Load() {
			ringDoorbell(p.seg.doorbell)
		}
	case b != parked:
		p.rx.ctl.state.CompareAndSwap(b, running)
	}
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
