package remote

import (
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// watches are who watches whom between this process and another one, so that both ends of a watch
// learn when the way between them is lost.
type watches struct {
	mu   sync.Mutex
	ours map[watch]bool // an actor here watches one there
	of   map[watch]bool // an actor there watches one here
}

// watch is a watching and a watched actor, by id.
type watch struct{ watcher, who string }

// sent notes a system message on its way out.
func (w *watches) sent(target *actor.PID, message any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m := message.(type) {
	case *actor.Watch:
		if w.ours == nil {
			w.ours = map[watch]bool{}
		}
		w.ours[watch{m.Watcher.Id, target.Id}] = true
	case *actor.Unwatch:
		delete(w.ours, watch{m.Watcher.Id, target.Id})
	case *actor.Terminated:
		delete(w.of, watch{target.Id, m.Who.Id})
	}
}

// came notes a system message for an actor here, and reports whether that is to have it.
func (w *watches) came(from string, target *actor.PID, message any) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m := message.(type) {
	case *actor.Watch:
		if m.Watcher == nil || m.Watcher.Address != from {
			return false
		}
		if w.of == nil {
			w.of = map[watch]bool{}
		}
		w.of[watch{m.Watcher.Id, target.Id}] = true
	case *actor.Unwatch:
		if m.Watcher == nil || m.Watcher.Address != from {
			return false
		}
		delete(w.of, watch{m.Watcher.Id, target.Id})
	case *actor.Terminated:
		if m.Who == nil || m.Who.Address != from {
			return false
		}
		k := watch{target.Id, m.Who.Id}
		if !w.ours[k] { // it watches no longer
			return false
		}
		delete(w.ours, k)
	case *actor.Stop:
	default:
		return false
	}
	return true
}

// failed has everybody here learn that the other process is lost.
func (w *watches) failed(r *Remote, address string) {
	w.mu.Lock()
	ours, of := w.ours, w.of
	w.ours, w.of = nil, nil
	w.mu.Unlock()
	for k := range ours {
		r.terminated(k.watcher, address, k.who)
	}
	for k := range of {
		if p, ok := r.system.ProcessRegistry.GetLocal(k.who); ok {
			p.SendSystemMessage(actor.NewPID(r.name, k.who), &actor.Unwatch{Watcher: actor.NewPID(address, k.watcher)})
		}
	}
}

// lost has the watcher learn of a Watch that did not arrive, unless it has.
func (w *watches) lost(r *Remote, x letter) {
	m, ok := x.message.(*actor.Watch)
	if !ok {
		return
	}
	k := watch{m.Watcher.Id, x.target.Id}
	w.mu.Lock()
	had := w.ours[k]
	delete(w.ours, k)
	w.mu.Unlock()
	if had {
		r.terminated(k.watcher, x.target.Address, k.who)
	}
}

// terminated tells an actor here that the process of one that it watches is lost.
func (r *Remote) terminated(watcher, address, who string) {
	if p, ok := r.system.ProcessRegistry.GetLocal(watcher); ok {
		p.SendSystemMessage(actor.NewPID(r.name, watcher), &actor.Terminated{
			Who: actor.NewPID(address, who), Why: actor.TerminatedReason_AddressTerminated,
		})
	}
}

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
