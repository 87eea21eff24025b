package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// watchPeriod is how often a device checks the locks of the queue pairs it knows. A
// death is found at the next check, or the one after it if another process holds
// the lock to clean up at that moment.
const watchPeriod = 100 * time.Millisecond

// watcher knows, for every queue pair of a device, which others it communicates
// with, and reports their deaths to it. Its goroutine runs while the device is open,
// and its timer while there is something to look at (idle).
type watcher struct {
	folder *folder
	views  *views
	timer  *os.File // readable every watchPeriod
	timeFD int
	done   chan struct{}
	asleep atomic.Bool // the timer is stopped

	mu    sync.Mutex
	ports map[*port]struct{}
	peers map[ident]*peer
}

// peer is a queue pair of another segment whose lock is watched.
type peer struct {
	fd   int
	with map[*port]struct{}
}

func (f *folder) startWatcher(vs *views) (*watcher, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("shm: timer: %w", err)
	}
	w := &watcher{
		folder: f, views: vs, timer: os.NewFile(uintptr(fd), "shm-watch"), timeFD: fd,
		done:  make(chan struct{}),
		ports: make(map[*port]struct{}), peers: make(map[ident]*peer),
	}
	w.asleep.Store(true)
	vs.mapped = w.wake
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
// sleep. Who enters the sender table of one that sleeps rings, and does nothing else before
// that would need us if it died.
func (w *watcher) idle() bool {
	return len(w.peers) == 0 && w.views.size() == 0 && w.folder.roundsLeft.Load() == 0 && !w.stirred()
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
	w.folder.expectOrphans()
	w.wake()
}

func (w *watcher) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ports)
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
		w.views.clear() // they would never be checked again
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
			ringBell(p.seg.bell) // Poll will find it
		}
	}
	for id, pe := range w.peers {
		if lockedByOther(pe.fd) {
			continue
		}
		w.folder.remove(pe.fd, segmentName(id.qpn()), id.gen())
		w.folder.expectOrphans()
		_ = unix.Close(pe.fd)
		delete(w.peers, id)
		for p := range pe.with {
			p.tell(id)
		}
	}
	if w.folder.lookForOrphans() {
		w.views.dropIf(func(v *view) bool { return !w.folder.named(v) })
	}
	w.views.prune()
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
	s, err := w.folder.find(segmentName(id.qpn()))
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, errNoSegment):
		p.tell(id)
	case err != nil: // out of descriptors, say: look again next time
		p.stirred.Store(true)
	case s.hdr.ident() != id:
		p.tell(id)
		s.close()
	default:
		w.followLocked(p, id, s.fd)
	}
}

// tell reports the death of id to p and wakes it.
func (p *port) tell(id ident) {
	p.news.put(id)
	parked := false
	if !p.watched(func() { parked = p.rx.unpark() }) || parked {
		ringBell(p.seg.bell)
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
	switch b := p.rx.ctl.bell.Load(); {
	case b == running:
		if p.armed.Load() {
			ringBell(p.seg.bell)
		}
	case b != parked:
		p.rx.ctl.bell.CompareAndSwap(b, running)
	}
}
