package tcp

import (
	"sync"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// maxGuesses is how many keys that name nothing a host may try before it must wait.
const maxGuesses = 32

// Waits of hosts: each is twice the one before.
const (
	firstWait = time.Second
	maxWait   = 10 * time.Minute
	forgiven  = time.Hour // without a guess
)

// maxWards is how many hosts are remembered.
const maxWards = 1024

// wards are the hosts from which keys of a device's were guessed. Its queue pairs share
// them; only an access that was refused, a new session and a dial take the lock.
type wards struct {
	clock clock.Clock
	mu    sync.Mutex
	hosts map[device.GID]*ward
}

// ward is such a host.
type ward struct {
	guesses int           // since it last had to wait
	wait    time.Duration // the latest
	until   clock.Time    // when it ends
	latest  clock.Time    // guess
}

// guess counts a guess, and reports whether the host has to wait now.
func (w *wards) guess(gid device.GID) bool {
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
	if h.guesses++; h.guesses < maxGuesses {
		return false
	}
	h.guesses, h.wait = 0, min(max(2*h.wait, firstWait), maxWait)
	h.until = now.Add(h.wait)
	return true
}

// waits reports whether a host may not begin a session yet.
func (w *wards) waits(gid device.GID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[gid]
	return h != nil && h.until.Sub(w.clock.Now()) > 0
}

// add makes room for a host: those that were good for long are forgotten, or else the one
// whose latest guess is the oldest.
func (w *wards) add(gid device.GID, now clock.Time) *ward {
	if w.hosts == nil {
		w.hosts = map[device.GID]*ward{}
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
	if len(w.hosts) >= maxWards {
		delete(w.hosts, oldest)
	}
	h := &ward{}
	w.hosts[gid] = h
	return h
}
