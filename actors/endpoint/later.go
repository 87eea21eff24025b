package endpoint

import (
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/shard"
)

// later is packets of newcomers for which the device had no address handle to give, for want of memory
// or descriptors. The device has acknowledged them, so they are not dropped: they wait in their receive
// slots, and are handled once more after a while. As many may wait as leave half of the slots to others;
// what comes beyond that is dropped and counted as Crowded.
//
// It belongs to the endpoint's shard, and owns the timer of the next try.
type later struct {
	peers *peers
	pkts  []*device.RecvPkt
	timer shard.Timer
	tick  laterTick
}

// laterTick is when to try again.
type laterTick struct{ shard.Message }

// laterEvery is the time between two tries.
const laterEvery = 5 * time.Millisecond

// keep has a packet wait. It reports whether there was room for it.
func (w *later) keep(r *device.RecvPkt) bool {
	env := w.peers.env
	if len(w.pkts) >= max(1, env.Q.Slots()/2) {
		return false
	}
	if w.pkts = append(w.pkts, r); len(w.pkts) == 1 {
		env.Sh.StartTimer(&w.timer, laterEvery, env.Endpoint, &w.tick)
	}
	return true
}

// onTick handles the packets once more. Those for which there still is no handle wait again.
func (w *later) onTick() {
	pkts := w.pkts
	w.pkts = nil
	for _, r := range pkts {
		w.peers.onUnlisted(r)
	}
}
