package shard

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// refContext is the actor.Context that Receive gets for messages of the Ref
// lane: the actor's real context, except for what concerns the message. It is the
// mailbox seen from the actor's side; like any actor.Context it is valid inside
// Receive.
type refContext mailbox

func (c *refContext) Message() any { return c.msg }

// Sender returns nil: a message that wants an answer carries the Ref.
func (c *refContext) Sender() *actor.PID { return nil }

func (c *refContext) MessageHeader() actor.ReadonlyMessageHeader { return nil }

func (c *refContext) Forward(pid *actor.PID) { c.Send(pid, c.msg) }

// Stash keeps the message until the actor restarts; as in protoactor, the message
// stashed last is then received first.
func (c *refContext) Stash() {
	x := (*mailbox)(c).extras()
	x.stash = append(x.stash, c.msg)
}

func (c *refContext) ReenterAfter(f *actor.Future, cont func(res any, err error)) {
	msg := c.msg
	c.Context.ReenterAfter(f, func(res any, err error) {
		c.msg = msg
		cont(res, err)
		c.msg = nil
	})
}

// SetReceiveTimeout makes all messages take the real invoker, which re-arms the
// timeout around each. Shard timers are a hundred times cheaper.
func (c *refContext) SetReceiveTimeout(d time.Duration) {
	c.Context.SetReceiveTimeout(d)
	(*mailbox)(c).refresh()
}
