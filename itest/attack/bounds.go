package main

import "time"

// bounds are for how long calls may take.
type bounds struct {
	Steady      time.Duration // no legitimate peer may wait for longer, whatever others do
	PeerTimeout time.Duration // of all endpoints
}

// promised are the bounds of the command: two seconds are what docs/threat-model.md promises.
var promised = bounds{Steady: 2 * time.Second, PeerTimeout: 3 * time.Second}

// victimPatience is how long calls may take of and to a process whose memory is
// overwritten: what was for it may be lost, so callers have to give up by themselves.
const victimPatience = time.Second

// mortal is for calls that concern a process that may be dead or stopped: what it takes to
// notice, for a message and the one that waits behind it.
func (b bounds) mortal() time.Duration { return 3*b.PeerTimeout + b.Steady }
