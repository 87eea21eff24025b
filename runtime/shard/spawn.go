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
		return s.spawnRoot(name, p, opts)
	}
	done := s.call(func() {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("shard: spawning %s: panic: %v", name, r)
			}
		}()
		ref, err = s.spawnRoot(name, p, opts)
	})
	if done != nil {
		return Ref{}, done
	}
	return ref, err
}

func (s *Shard) spawnRoot(name string, p actor.Producer, opts []actor.PropsOption) (Ref, error) {
	if s.closing.Load() {
		return Ref{}, ErrClosed
	}
	m, props := s.props(p, opts)
	defer s.spawnDone()
	id := s.root.pid.GetId() + "/" + s.named(name)
	_, err := actor.DefaultSpawner(s.actors, id, props, rootSpawner{s.actors.Root, s.root.pid})
	if err != nil {
		return Ref{}, fmt.Errorf("shard: spawning %s: %w", id, err)
	}
	s.root.actors = append(s.root.actors, m)
	return Ref{m}, nil
}

// SpawnChild starts a child of the actor whose Receive is running. An empty name
// gets a number. A name that a sibling has is a bug of the parent, and panics.
func (s *Shard) SpawnChild(parent actor.Context, name string, p actor.Producer, opts ...actor.PropsOption) Ref {
	m, props := s.props(p, opts)
	defer s.spawnDone()
	name = s.named(name)
	if _, err := parent.SpawnNamed(props, name); err != nil {
		panic(fmt.Errorf("shard: spawning %s/%s: %w", parent.Self().GetId(), name, err))
	}
	return Ref{m}
}

// named numbers what has no name: on the shard, not in the process, so that two
// runs of a simulation agree.
func (s *Shard) named(name string) string {
	if name != "" {
		return name
	}
	s.unnamed++
	return "$" + strconv.FormatUint(s.unnamed, 10)
}

// props returns the Props of one actor, and the mailbox that they will produce.
func (s *Shard) props(p actor.Producer, opts []actor.PropsOption) (*mailbox, *actor.Props) {
	m := &mailbox{s: s}
	if len(opts) == 0 {
		m.producer = p
		s.spawning = m
		return m, s.sharedProps()
	}
	props := actor.PropsFromProducer(p, actor.WithSupervisor(s.root.strategy))
	props.Configure(opts...)
	props.Configure(actor.WithMailbox(func() actor.Mailbox { return m }))
	m.chained = chained(props)
	return m, props
}

// sharedProps is what all actors without options have: Props, of which each keeps
// a pointer, take a third of an idle actor's memory. Both producers have to find
// out whom they are called for. protoactor makes an actor in the call that spawns
// it, then asks for its mailbox; or makes it anew while handling one of its
// system messages.
func (s *Shard) sharedProps() *actor.Props {
	if s.shared == nil {
		s.shared = actor.PropsFromProducer(s.incarnate, actor.WithSupervisor(s.root.strategy),
			actor.WithMailbox(func() actor.Mailbox { return s.spawned }))
	}
	return s.shared
}

func (s *Shard) incarnate() actor.Actor {
	m := s.spawning
	if m == nil {
		return s.cur.producer()
	}
	s.spawning = nil // the producer may spawn, too
	a := m.producer()
	s.spawned = m
	return a
}

// spawnDone forgets a spawn that may have failed half-way.
func (s *Shard) spawnDone() { s.spawning, s.spawned = nil, nil }

// chained reports whether props ask for something around Receive that only the
// real invoker does. Props keep that to themselves, but whether a field is nil
// can be seen.
func chained(props *actor.Props) bool {
	v := reflect.ValueOf(props).Elem()
	return !v.FieldByName("receiverMiddlewareChain").IsNil() || !v.FieldByName("contextDecoratorChain").IsNil()
}

// call runs fn on the shard and waits until it has.
func (s *Shard) call(fn func()) error {
	if s.external && s.Adopt() {
		defer s.Release()
		if s.closed() {
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
