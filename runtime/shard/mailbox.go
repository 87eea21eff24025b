package shard

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// mailbox is one actor's place on the shard. It holds no queue: its messages are
// in the shard's ring, except while the actor is suspended. Owned by the shard's
// owner, except s and pid, which never change once the actor is spawned.
type mailbox struct {
	s             *Shard
	actor         actor.Actor // the present incarnation
	actor.Context             // the real one
	msg           any         // the Ref lane's message in Receive
	pid           *actor.PID
	bars          bars
	invoker       actor.MessageInvoker // the real context again
	producer      actor.Producer       // of an actor with shared Props

	chained   bool // middleware or decorators: all messages take the real invoker
	suspended bool // failed, awaiting its supervisor
	restarted bool // a Restart was seen whose ResumeMailbox is to come
	stopping  bool // a Stop was seen
	stopped   bool // gone; messages are canceled
	starting  bool // Started is to be handled

	x *mailboxExtras
}

// bars are the reasons why no handler of an actor may be called from within that of another;
// one look tells that there are none. From barPending on they count the messages for it that
// are in the rings.
type bars int32

const (
	barSlow    bars = 1 << iota // not started, failed or stopped, or Receive may not be called directly
	barEntered                  // a handler of it was called so, and has not returned
	barPending
)

// fast reports whether the actor's Receive may be called directly.
func (b bars) fast() bool { return b&barSlow == 0 }

// pending is the number of messages for the actor in the rings.
func (b bars) pending() int { return int(b / barPending) }

// setFast says whether the actor's Receive may be called directly.
func (b *bars) setFast(on bool) {
	*b |= barSlow
	if on {
		*b &^= barSlow
	}
}

// mailboxExtras is what only an actor that failed or stops needs.
type mailboxExtras struct {
	held   []entry       // user messages that came while suspended
	stash  []any         // stashed by Ref lane contexts, newest last
	proc   actor.Process // what the registry has while the actor lives
	panics int           // while stopping
}

var _ actor.Mailbox = (*mailbox)(nil)

func (m *mailbox) extras() *mailboxExtras {
	if m.x == nil {
		m.x = &mailboxExtras{}
	}
	return m.x
}

// PostUserMessage is where the PID lane enters, from any goroutine.
func (m *mailbox) PostUserMessage(message any) {
	if m.s.owner.isCallerFast() {
		m.s.delivery.ring.push(m, message, lanePID)
		return
	}
	m.s.remote(m, message, lanePID)
}

// PostSystemMessage is where protoactor's own messages enter, from any goroutine.
// They are rare, and must get ahead of user messages: hence the check of the owner by
// isCaller, which purego builds have too.
func (m *mailbox) PostSystemMessage(message any) {
	if m.s.OnShard() {
		if _, ok := message.(*actor.Started); ok {
			m.starting = true // spawner.started handles it before the spawn returns
			return
		}
		m.s.delivery.sys.push(m, message, laneSystem)
		return
	}
	m.s.remote(m, message, laneSystem)
}

// RegisterHandlers is called once, at spawn; the invoker is the actor's context.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker, m.Context = invoker, invoker.(actor.Context)
	m.pid = m.Self()
	m.refresh()
}

// Start has nothing to do: a shard always runs.
func (m *mailbox) Start() {}

// UserMessageCount counts what is in the ring and held back; on the shard only,
// elsewhere it is 0.
func (m *mailbox) UserMessageCount() int {
	if !m.s.OnShard() {
		return 0
	}
	n := m.s.delivery.ring.count(m) + m.s.delivery.replay.count(m)
	if m.x != nil {
		n += len(m.x.held)
	}
	return n
}

// receive is Receive on the caller's stack. Precondition: the caller has entered m.
func (m *mailbox) receive(msg Msg) {
	defer m.s.Leave(Ref{m})
	m.msg = msg
	m.actor.Receive((*refContext)(m))
	m.msg = nil
}

// invokeSystem hands one of protoactor's own messages to the actor.
func (m *mailbox) invokeSystem(msg any) {
	switch msg.(type) {
	case *actor.SuspendMailbox:
		m.suspend()
	case *actor.ResumeMailbox:
		m.resume()
	case *actor.Stop:
		m.noteStop()
		m.invoker.InvokeSystemMessage(msg)
	case *actor.Restart:
		if !m.stopping { // it would undo the stop
			m.restarted = true
			m.invoker.InvokeSystemMessage(msg)
		}
	default:
		m.invoker.InvokeSystemMessage(msg)
	}
}

// refresh takes over what the real context may have changed: the incarnation,
// by a restart, and whether a receive timeout is armed.
func (m *mailbox) refresh() {
	m.actor = m.Actor()
	m.bars.setFast(!m.chained && !m.suspended && !m.stopped && m.ReceiveTimeout() == 0)
}

// rearmed does the part of refresh that a user message may make necessary.
func (m *mailbox) rearmed() {
	if m.bars.fast() == (m.ReceiveTimeout() != 0) {
		m.refresh()
	}
}

// suspend holds user messages back from now on.
func (m *mailbox) suspend() {
	m.suspended = true
	m.s.pollers.refresh()
	m.bars.setFast(false)
}

// resume puts the messages held back ahead of all others.
func (m *mailbox) resume() {
	m.suspended = false
	m.s.pollers.refresh()
	if m.restarted {
		m.restarted = false
		m.unstash()
	}
	if m.x == nil {
		return
	}
	for i, e := range m.x.held {
		m.s.delivery.replay.push(m, e.msg, e.lane)
		m.x.held[i] = entry{}
	}
	m.x.held = m.x.held[:0]
}

// unstash makes a restarted actor's stash its first messages.
func (m *mailbox) unstash() {
	if m.x == nil || len(m.x.stash) == 0 {
		return
	}
	again := make([]entry, 0, len(m.x.stash)+len(m.x.held))
	for i := len(m.x.stash) - 1; i >= 0; i-- {
		again = append(again, entry{m, m.x.stash[i], laneRef})
	}
	m.x.held = append(again, m.x.held...)
	m.x.stash = nil
}

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
