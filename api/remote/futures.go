package remote

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// futures are those that wait for an answer of another process: if that is lost they are not to wait
// for their timeouts. The link's lock guards them.
type futures struct {
	waiting map[string]bool
	sweep   int // how many there are when those that are over are forgotten
}

const firstSweep = 1 << 10

// isFuture reports whether an id is one that protoactor-go gives to futures.
func isFuture(id string) bool { return strings.HasPrefix(id, "future$") }

// add notes one. Futures that have timed out, or were answered by somebody else, do not say so.
func (f *futures) add(id string, r *Remote) {
	if f.waiting == nil {
		f.waiting, f.sweep = map[string]bool{}, firstSweep
	}
	if len(f.waiting) >= f.sweep {
		for id := range f.waiting {
			if _, there := r.system.ProcessRegistry.GetLocal(id); !there {
				delete(f.waiting, id)
			}
		}
		f.sweep = max(firstSweep, 2*len(f.waiting))
	}
	f.waiting[id] = true
}

// lost has those that wait end as for a dead letter.
func (f *futures) lost(r *Remote) {
	for id := range f.waiting {
		if p, there := r.system.ProcessRegistry.GetLocal(id); there {
			p.SendUserMessage(actor.NewPID(r.name, id), &actor.DeadLetterResponse{})
		}
	}
}
