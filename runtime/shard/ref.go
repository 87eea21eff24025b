package shard

import "github.com/asynkron/protoactor-go/actor"

// Ref names an actor of a shard for the Ref lane. It is one word, comparable,
// and stays valid after the actor stopped; the zero Ref names no actor.
type Ref struct{ m *mailbox }

// PID returns the actor's protoactor name, for the PID lane; nil for the zero Ref.
func (r Ref) PID() *actor.PID {
	if r.m == nil {
		return nil
	}
	return r.m.pid
}

// IsZero reports whether r names no actor.
func (r Ref) IsZero() bool { return r.m == nil }

// String returns the actor's path, which begins with the name of its shard, or
// "nobody".
func (r Ref) String() string {
	if r.m == nil {
		return "nobody"
	}
	return r.m.pid.GetId()
}
