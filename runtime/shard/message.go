package shard

// Msg is a message that the actors of a shard tell each other: a pointer to a struct that
// embeds Message. The set of messages is sealed by that.
type Msg interface{ shardMsg() }

// Message makes a struct a Msg; embed it by value. A message is usually a field
// of its sender, so that telling it allocates nothing; it may be under way once at a
// time.
type Message struct{}

func (*Message) shardMsg() {}

// Canceled may be implemented by a message that must not be lost silently. Canceled is
// called in place of Receive when the actor stopped, or the shard closed, with
// the message still under way: on the shard, or after Close on the goroutine
// that posted. A message without it is counted in Stats.Canceled and dropped.
type Canceled interface{ Canceled() }

// lane says how an entry is to be delivered.
type lane uint8

const (
	laneRef    lane = iota // Tell: straight to Receive
	lanePID                // mailbox: through protoactor's actor context
	laneSystem             // protoactor's system messages, ahead of the rest
	laneCall               // a func() to run on the shard, from another goroutine
)

// entry is one message under way to one actor.
type entry struct {
	m    *mailbox
	msg  any
	lane lane
}
