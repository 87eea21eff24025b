package tcp

import (
	"errors"
	"sync"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// maxGuesses is how many keys that name nothing a host may try before it must wait.
const maxWrongKeys = 32

// Waits of hosts: each is twice the one before.
const (
	firstWait = time.Second
	maxWait   = 10 * time.Minute
	forgiven  = time.Hour // without a guess
)

// maxWards is how many hosts are remembered.
const maxGuardedHosts = 1024

// wards are the hosts from which keys of a device's were guessed. Its queue pairs share
// them; only an access that was refused, a new session and a dial take the lock.
type keyGuard struct {
	clock clock.Clock
	mu    sync.Mutex
	hosts map[device.GID]*guardedHost
}

// ward is such a host.
type guardedHost struct {
	wrong  int           // since it last had to wait
	wait   time.Duration // the latest
	until  clock.Time    // when it ends
	latest clock.Time    // guess
}

// guess counts a guess, and reports whether the host has to wait now.
func (w *keyGuard) countWrong(gid device.GID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	h := w.hosts[gid]
	if h == nil || now.Sub(h.latest) > forgiven {
		h = w.add(gid, now)
	}
	h.latest = now
	if h.until.Sub(now) > 0 {
		return true
	}
	if h.wrong++; h.wrong < maxWrongKeys {
		return false
	}
	h.wrong, h.wait = 0, min(max(2*h.wait, firstWait), maxWait)
	h.until = now.Add(h.wait)
	return true
}

// waits reports whether a host may not begin a session yet.
func (w *keyGuard) throttled(gid device.GID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[gid]
	return h != nil && h.until.Sub(w.clock.Now()) > 0
}

// add makes room for a host: those that were good for long are forgotten, or else the one
// whose latest guess is the oldest.
func (w *keyGuard) add(gid device.GID, now clock.Time) *guardedHost {
	if w.hosts == nil {
		w.hosts = map[device.GID]*guardedHost{}
	}
	var oldest device.GID
	for g, h := range w.hosts {
		if now.Sub(h.latest) > forgiven {
			delete(w.hosts, g)
			continue
		}
		if o := w.hosts[oldest]; o == nil || h.latest.Sub(o.latest) < 0 {
			oldest = g
		}
	}
	if len(w.hosts) >= maxGuardedHosts {
		delete(w.hosts, oldest)
	}
	h := &guardedHost{}
	w.hosts[gid] = h
	return h
}

// Keys have 62 random bits. One that names no region, nor lately did, is a guess, as is a wrong
// Q_Key. At maxGuesses of a host the session ends, and the host waits before it may begin
// another, each time twice as long. Those of its queue pairs that were known and guessed
// nothing need not wait.

var (
	// errGuesses: the other side names keys that there are not.
	errWrongKeys = errors.New("tcp: too many wrong keys")
	// errSentAway: the other side thinks so of us.
	errSentAway = errors.New("tcp: the other side wants no more of us, since we named too many wrong keys")
)

// guessed counts a request that names a key that is none here, and was none lately. The
// same one again teaches nobody anything: it is the mistake of an honest peer, who has many
// requests under way.
func (l *lane) wrongKey(key uint64) {
	r := l.s.r
	if r.hasWrongKey && r.wrongKey == key {
		return
	}
	l.p.dev.stats.guesses.Add(1)
	r.wrongKey, r.hasWrongKey = key, true
	l.tooManyWrongKeys = l.p.dev.keyGuard.countWrong(r.at.gid)
}

// sendAway ends the sessions with a queue pair that guesses keys, and tells it so.
func (p *port) sendAway(r *remote) {
	p.dev.stats.sentAway.Add(1)
	p.warnLog.warn("tcp: sessions ended", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", errWrongKeys)
	for _, s := range [...]*session{r.dialed, r.accepted} {
		if s == nil {
			continue
		}
		s.breaking = true // what happens while the bye is written has no consequences
		s.sayBye(device.StatusUnknownPeer)
		for _, l := range s.lanes {
			if l != nil && l.state == laneUp {
				l.drain()
			}
		}
		p.end(s, device.StatusUnknownPeer)
	}
}
