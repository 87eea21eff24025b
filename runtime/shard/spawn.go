package shard

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
)

// Spawn starts a root actor. Its path is the shard's name, a slash, and name; an
// empty name gets a number. Unless opts say otherwise, its children are
// supervised by OneForOne with 10 restarts in 10 s of the shard's time, as root
// actors are themselves.
//
// The producer runs on the shard. Called elsewhere Spawn waits for the shard.
func (s *Shard) Spawn(name string, p actor.Producer, opts ...actor.PropsOption) (ref Ref, err error) {
	if s.OnShard() {
		return s.spawner.root(name, p, opts)
	}
	done := s.call(func() {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("shard: spawning %s: panic: %v", name, r)
			}
		}()
		ref, err = s.spawner.root(name, p, opts)
	})
	if done != nil {
		return Ref{}, done
	}
	return ref, err
}

// SpawnChild starts a child of the actor whose Receive is running. An empty name
// gets a number. A name that a sibling has is a bug of the parent, and panics.
func (s *Shard) SpawnChild(parent actor.Context, name string, p actor.Producer, opts ...actor.PropsOption) Ref {
	return s.spawner.child(parent, name, p, opts)
}

// spawner starts actors. Owner only.
type spawner struct {
	s       *Shard
	unnamed uint64       // actors that were spawned without a name
	shared  *actor.Props // of all actors without options
	next    *mailbox     // being spawned with shared Props, until its actor is made
	made    *mailbox     // its actor is made, until protoactor asks for the mailbox
}

func (w *spawner) root(name string, p actor.Producer, opts []actor.PropsOption) (Ref, error) {
	r := &w.s.root
	if w.s.closing.Load() {
		return Ref{}, ErrClosed
	}
	m, props := w.props(p, opts)
	defer w.done()
	id := r.pid.GetId() + "/" + w.named(name)
	_, err := actor.DefaultSpawner(r.system, id, props, rootSpawner{r.system.Root, r.pid})
	if err != nil {
		return Ref{}, fmt.Errorf("shard: spawning %s: %w", id, err)
	}
	r.actors = append(r.actors, m)
	w.started(m)
	return Ref{m}, nil
}

func (w *spawner) child(parent actor.Context, name string, p actor.Producer, opts []actor.PropsOption) Ref {
	m, props := w.props(p, opts)
	defer w.done()
	name = w.named(name)
	if _, err := parent.SpawnNamed(props, name); err != nil {
		panic(fmt.Errorf("shard: spawning %s/%s: %w", parent.Self().GetId(), name, err))
	}
	w.started(m)
	return Ref{m}
}

var startedMessage = &actor.Started{}

// started has a new actor handle Started, so that its handlers may be called as soon as
// it was spawned. A panic is the failure of the new actor, not of the actor at work.
func (w *spawner) started(m *mailbox) {
	if !m.starting {
		return
	}
	m.starting = false
	d := &w.s.delivery
	c := &d.stack
	cur, msg, depth := c.top(), c.msg, c.depth
	defer func() {
		if r := recover(); r != nil {
			w.s.failed(r, depth)
		}
		c.unwind(depth)
		c.on[depth%maxStack], c.msg = cur, msg
		m.bars &^= barEntered
	}()
	c.on[depth%maxStack] = m // cur waits for the call that spawns, in whatever depth that is
	m.bars |= barEntered
	d.system(m, startedMessage)
}

// named gives an actor without a name a number: of the shard, not of the process, so
// that two runs of a simulation agree.
func (w *spawner) named(name string) string {
	if name != "" {
		return name
	}
	w.unnamed++
	return "$" + strconv.FormatUint(w.unnamed, 10)
}

// props returns the Props of one actor, and the mailbox that they will produce.
func (w *spawner) props(p actor.Producer, opts []actor.PropsOption) (*mailbox, *actor.Props) {
	m := &mailbox{s: w.s, bars: barSlow}
	if len(opts) == 0 {
		m.producer = p
		w.next = m
		return m, w.sharedProps()
	}
	props := actor.PropsFromProducer(p, actor.WithSupervisor(w.s.root.strategy))
	props.Configure(opts...)
	props.Configure(actor.WithMailbox(func() actor.Mailbox { return m }))
	m.chained = chained(props)
	return m, props
}

// sharedProps returns the Props of all actors without options: each actor keeps a
// pointer to its Props, and Props of its own would take a third of an idle actor's
// memory. Both producers have to find out for which actor they are called. protoactor
// makes an actor in the call that spawns it, then asks for its mailbox; or makes it
// anew while handling one of its system messages.
func (w *spawner) sharedProps() *actor.Props {
	if w.shared == nil {
		w.shared = actor.PropsFromProducer(w.incarnate, actor.WithSupervisor(w.s.root.strategy),
			actor.WithMailbox(func() actor.Mailbox { return w.made }))
	}
	return w.shared
}

func (w *spawner) incarnate() actor.Actor {
	m := w.next
	if m == nil {
		return w.s.delivery.stack.top().producer()
	}
	w.next = nil // the producer may spawn, too
	a := m.producer()
	w.made = m
	return a
}

// done forgets a spawn that may have failed half-way.
func (w *spawner) done() { w.next, w.made = nil, nil }

// chained reports whether props ask for something around Receive that only the
// real invoker does. Props do not export that, but reflection shows whether a field
// is nil.
func chained(props *actor.Props) bool {
	v := reflect.ValueOf(props).Elem()
	return !v.FieldByName("receiverMiddlewareChain").IsNil() || !v.FieldByName("contextDecoratorChain").IsNil()
}

// call runs fn on the shard and waits until it has.
func (s *Shard) call(fn func()) error {
	if s.external && s.owner.take() {
		defer s.Release()
		if s.parking.isClosed() {
			return ErrClosed
		}
		fn()
		return nil
	}
	var sig Signal
	s.remote(nil, func() {
		defer sig.Set()
		fn()
	}, laneCall)
	return s.Wait(context.Background(), &sig)
}
