package tcp

import (
	"errors"
	"sync"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// A device limits how many wrong keys a host may name. Keys have 62 random bits. A key is wrong if
// it names no region, nor lately did; so is a wrong Q_Key. At maxWrongKeys of a host the session
// ends, and the host waits before it may begin another, each time twice as long. Those of its queue
// pairs that were known and named no wrong key need not wait.

// maxWrongKeys is how many wrong keys a host may name before it must wait.
const maxWrongKeys = 32

// Waits of hosts: each is twice the one before.
const (
	firstWait = time.Second
	maxWait   = 10 * time.Minute
	forgiven  = time.Hour // without a wrong key
)

// maxGuardedHosts is how many hosts are remembered.
const maxGuardedHosts = 1024

// keyGuard has the hosts that named wrong keys of a device's. The device's queue pairs share
// it; only an access that was refused, a new session and a dial take the lock.
type keyGuard struct {
	clock clock.Clock
	mu    sync.Mutex
	hosts map[device.GID]*guardedHost
}

// guardedHost is such a host.
type guardedHost struct {
	wrong  int           // since it last had to wait
	wait   time.Duration // the latest
	until  clock.Time    // when it ends
	latest clock.Time    // wrong key
}

// countWrong counts a wrong key, and reports whether the host has to wait now.
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

// throttled reports whether a host may not begin a session yet.
func (w *keyGuard) throttled(gid device.GID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[gid]
	return h != nil && h.until.Sub(w.clock.Now()) > 0
}

// add makes room for a host: those that were good for long are forgotten, or else the one
// whose latest wrong key is the oldest.
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

var (
	// errWrongKeys: the other side names keys that name nothing.
	errWrongKeys = errors.New("tcp: too many wrong keys")
	// errSentAway: the other side thinks so of us.
	errSentAway = errors.New("tcp: the other side wants no more of us, since we named too many wrong keys")
)
