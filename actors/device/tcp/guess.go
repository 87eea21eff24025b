package tcp

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
)

// Keys have 62 random bits. One that names no region, nor lately did, is a guess, as is a wrong
// Q_Key. At maxGuesses of a host the session ends, and the host waits before it may begin
// another, each time twice as long. Those of its queue pairs that were known and guessed
// nothing need not wait.

var (
	// errGuesses: the other side names keys that there are not.
	errGuesses = errors.New("tcp: too many wrong keys")
	// errSentAway: the other side thinks so of us.
	errSentAway = errors.New("tcp: the other side wants no more of us, since we named too many wrong keys")
)

// guessed counts a request that names a key that is none here, and was none lately. The
// same one again teaches nobody anything: it is the mistake of an honest peer, who has many
// requests under way.
func (l *lane) guessed(key uint64) {
	r := l.s.r
	if r.guessed && r.guess == key {
		return
	}
	l.p.dev.stats.guesses.Add(1)
	r.guess, r.guessed = key, true
	l.tooCurious = l.p.dev.wards.guess(r.at.gid)
}

// sendAway ends the sessions with a queue pair that guesses keys, and tells it so.
func (p *port) sendAway(r *remote) {
	p.dev.stats.sentAway.Add(1)
	p.complaints.warn("tcp: sessions ended", "address", AddrOf(r.at.gid), "port", r.at.qpn, "why", errGuesses)
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
