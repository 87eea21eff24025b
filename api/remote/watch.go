package remote

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// watches are who watches whom between this process and another one, so that both ends of a watch
// learn when the way between them is lost. The link's lock guards them.
type watches struct {
	ours map[watch][]string // an actor here watches one there, by these names of the process
	of   map[watch]bool     // an actor there watches one here
}

// watch is a watching and a watched actor, by id.
type watch struct{ watcher, who string }

func (w *watches) add(k watch, names ...string) {
	if w.ours == nil {
		w.ours = map[watch][]string{}
	}
	for _, name := range names {
		if !slices.Contains(w.ours[k], name) {
			w.ours[k] = append(w.ours[k], name)
		}
	}
}

// sent notes a system message on its way to a process by one of its names.
func (w *watches) sent(name string, target *actor.PID, message any) {
	switch m := message.(type) {
	case *actor.Watch:
		w.add(watch{m.Watcher.Id, target.Id}, name)
	case *actor.Unwatch:
		k := watch{m.Watcher.Id, target.Id}
		names := slices.DeleteFunc(w.ours[k], func(n string) bool { return n == name })
		if len(names) == 0 {
			delete(w.ours, k)
		} else {
			w.ours[k] = names
		}
	case *actor.Terminated:
		delete(w.of, watch{target.Id, m.Who.Id})
	}
}

// came notes a system message of the process that is called from here, for an actor here, and gives what
// that is to have: actors there are called by the names that actors here know, whatever the
// message says. ok reports whether there may be such a message.
func (w *watches) came(from string, target *actor.PID, message any) (messages []any, ok bool) {
	switch m := message.(type) {
	case *actor.Watch:
		if m.Watcher == nil {
			return nil, false
		}
		if w.of == nil {
			w.of = map[watch]bool{}
		}
		w.of[watch{m.Watcher.Id, target.Id}] = true
		return []any{&actor.Watch{Watcher: actor.NewPID(from, m.Watcher.Id)}}, true
	case *actor.Unwatch:
		if m.Watcher == nil {
			return nil, false
		}
		delete(w.of, watch{m.Watcher.Id, target.Id})
		return []any{&actor.Unwatch{Watcher: actor.NewPID(from, m.Watcher.Id)}}, true
	case *actor.Terminated:
		if m.Who == nil {
			return nil, false
		}
		k := watch{target.Id, m.Who.Id}
		for _, name := range w.ours[k] {
			messages = append(messages, &actor.Terminated{Who: actor.NewPID(name, m.Who.Id), Why: m.Why})
		}
		delete(w.ours, k)
		return messages, len(messages) > 0 // else it watches no longer
	case *actor.Stop:
		return []any{m}, true
	}
	return nil, false
}

// failed has everybody here learn that the other process is lost.
func (w *watches) failed(r *Remote, from string) {
	for k, names := range w.ours {
		for _, name := range names {
			r.terminated(k.watcher, name, k.who)
		}
	}
	for k := range w.of {
		if p, ok := r.system.ProcessRegistry.GetLocal(k.who); ok {
			p.SendSystemMessage(actor.NewPID(r.name, k.who), &actor.Unwatch{Watcher: actor.NewPID(from, k.watcher)})
		}
	}
}

// lose says where a message went whose session is over: a watcher has been told then.
func (r *Remote) lose(x letter) {
	if !x.system {
		r.dead(x)
	}
}

// lost says where a message went that found no session.
func (r *Remote) lost(x letter) {
	if m, ok := x.message.(*actor.Watch); ok {
		r.terminated(m.Watcher.Id, x.target.Address, x.target.Id)
	}
	r.lose(x)
}

// terminated tells an actor here that the process of one that it watches is lost.
func (r *Remote) terminated(watcher, address, who string) {
	if p, ok := r.system.ProcessRegistry.GetLocal(watcher); ok {
		p.SendSystemMessage(actor.NewPID(r.name, watcher), &actor.Terminated{
			Who: actor.NewPID(address, who), Why: actor.TerminatedReason_AddressTerminated,
		})
	}
}

// local delivers a message that was sent to this process by another name than its own. Actors here
// know each other by that name then.
func (r *Remote) local(name string, x letter) {
	p, _ := r.system.ProcessRegistry.GetLocal(x.target.Id) // else the dead letters
	to := &actor.PID{Address: r.name, Id: x.target.Id, RequestId: x.target.RequestId}
	if !x.system {
		p.SendUserMessage(to, x.message)
		return
	}
	switch m := x.message.(type) {
	case *actor.Watch:
		p.SendSystemMessage(to, &actor.Watch{Watcher: actor.NewPID(name, m.Watcher.Id)})
	case *actor.Unwatch:
		p.SendSystemMessage(to, &actor.Unwatch{Watcher: actor.NewPID(name, m.Watcher.Id)})
	case *actor.Terminated:
		p.SendSystemMessage(to, &actor.Terminated{Who: actor.NewPID(name, m.Who.Id), Why: m.Why})
	case *actor.Stop:
		p.Stop(to)
	default:
		p.SendSystemMessage(to, m)
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
