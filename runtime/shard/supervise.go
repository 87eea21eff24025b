package shard

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/runtime/clock"
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
	if s.external && s.owner.acquire() {
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

// Restarts that an actor without a strategy of its own is allowed.
const (
	defaultRestarts = 10
	defaultWithin   = 10 * time.Second
)

// OneForOne returns a strategy for children on s: the decider's directive goes
// to the child that failed, and one that failed more than maxRestarts times
// within the given time is stopped. 0 restarts stop it at once, and within 0
// counts failures for ever. It differs from protoactor's in that the time is the
// shard's; protoactor's strategies read the system's clock.
func (s *Shard) OneForOne(maxRestarts int, within time.Duration, decider actor.DeciderFunc) actor.SupervisorStrategy {
	if decider == nil {
		decider = actor.DefaultDecider
	}
	return &oneForOne{s, maxRestarts, within, decider}
}

type oneForOne struct {
	s       *Shard
	max     int
	within  time.Duration
	decider actor.DeciderFunc
}

// HandleFailure runs on the shard: failures come as system messages.
func (o *oneForOne) HandleFailure(system *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, message any,
) {
	directive := o.decider(reason)
	if directive == actor.RestartDirective && (o.max <= 0 || o.s.root.restarts.exhausted(child, o.max, o.within, o.s.clock.now)) {
		directive = actor.StopDirective
	}
	if directive == actor.EscalateDirective {
		supervisor.EscalateFailure(reason, message)
		return
	}
	system.EventStream.Publish(&actor.SupervisorEvent{Child: child, Reason: reason, Directive: directive})
	switch directive {
	case actor.ResumeDirective:
		supervisor.ResumeChildren(child)
	case actor.RestartDirective:
		supervisor.RestartChildren(child)
	default:
		supervisor.StopChildren(child)
	}
}

// restarts remembers when actors failed. Owner only.
type restarts struct{ times map[*actor.PID][]clock.Time }

// exhausted notes a failure and reports whether it was one too many.
func (r *restarts) exhausted(child *actor.PID, limit int, within time.Duration, now clock.Time) bool {
	times := r.times[child]
	if within > 0 {
		recent := times[:0]
		for _, t := range times {
			if now.Sub(t) < within {
				recent = append(recent, t)
			}
		}
		times = recent
	}
	if len(times) >= limit {
		delete(r.times, child)
		return true
	}
	if r.times == nil {
		r.times = make(map[*actor.PID][]clock.Time)
	}
	r.times[child] = append(times, now)
	return false
}

// forget is for an actor that has stopped.
func (r *restarts) forget(child *actor.PID) { delete(r.times, child) }

// rescue makes a panic that nothing below the turn has rescued the failure of the actor at work: no actor
// is at work then. A nil reason is none.
func (s *Shard) rescue(reason any) {
	if reason != nil {
		s.failed(reason, 0)
		s.delivery.stack.on[0] = nil
	}
}

// failed makes a panic the failure of the actor at work, and ends the handlers that are on the
// stack above depth.
func (s *Shard) failed(reason any, depth uint) {
	s.sched.work++
	c := &s.delivery.stack
	m, msg := c.top(), c.msg
	c.unwind(depth)
	c.msg = nil
	if m == nil {
		s.faults.panicked("nobody", reason)
		return
	}
	m.fail(reason, msg)
}

// fail makes a panic, in the message that protoactor knows of, the failure of m.
func (m *mailbox) fail(reason, msg any) {
	if m.msg != nil {
		msg, m.msg = m.msg, nil
	}
	m.s.faults.panicked(m.pid.GetId(), reason)
	switch {
	case m.stopped: // gone already; there is nothing to supervise
	case m.stopping:
		m.forceStop()
	default:
		m.invoker.EscalateFailure(reason, msg)
		m.suspend() // now, not when the message that says so is delivered
	}
	m.refresh()
}

// maxStopPanics is how often an actor may panic while it stops before it is taken out
// without being asked again.
const maxStopPanics = 3

// Stop ends an actor as protoactor's Stop does: ahead of its user messages,
// which are canceled. For an orderly end, after them, use Poison.
func (s *Shard) Stop(r Ref) {
	if r.m == nil {
		return
	}
	s.root.system.Root.Stop(r.m.pid)
}

// noteStop remembers which process the registry has for m: when that is gone, so
// is m. The actor context keeps its state to itself.
func (m *mailbox) noteStop() {
	if m.stopping {
		return
	}
	m.stopping = true
	m.extras().proc, _ = m.s.root.registry().GetLocal(m.pid.GetId())
}

// registered reports whether the registry still has the process that noteStop saw.
func (m *mailbox) registered() bool {
	proc, ok := m.s.root.registry().GetLocal(m.pid.GetId())
	return ok && proc == m.x.proc
}

// checkStopped retires m once the registry has let go of it.
func (m *mailbox) checkStopped() {
	if !m.registered() {
		m.retire()
	}
}

// retire is the end of m: what was held for it is canceled, as will be what still
// comes.
func (m *mailbox) retire() {
	s := m.s
	m.stopped = true
	m.bars.setFast(false)
	x := m.x
	m.x = nil
	for _, msg := range x.stash {
		s.faults.cancel(msg)
	}
	for _, e := range x.held {
		s.faults.cancel(e.msg)
	}
	s.root.restarts.forget(m.pid)
	s.pollers.remove(func(e *Polled) bool { return e.m == m })
}

// forceStop carries on with the stop of an actor that panicked in it. Its
// supervisor is not asked, since a restart would undo the stop. protoactor goes
// on with a stop when a child has ended, so for an actor without children forceStop
// reports the end of one.
func (m *mailbox) forceStop() {
	s := m.s
	x := m.extras()
	x.panics++
	switch alive := m.registered(); {
	case alive && x.panics <= maxStopPanics:
		children := m.Context.Children()
		for _, child := range children {
			m.Context.Stop(child)
		}
		if len(children) == 0 {
			s.delivery.sys.push(m, &actor.Terminated{Who: m.pid}, laneSystem)
		}
	default: // it panicked in Stopped, or too often: its parent does not know yet
		if alive {
			s.root.registry().Remove(m.pid)
		}
		s.root.send(m.Context.Parent(), &actor.Terminated{Who: m.pid})
		m.retire()
	}
}

// root is the process above a shard's root actors. It supervises them and knows
// which are left. It works in the owner's goroutine, inside the sender's call; s, pid,
// strategy and system never change, and any goroutine may read them.
type root struct {
	s        *Shard
	pid      *actor.PID
	strategy actor.SupervisorStrategy
	system   *actor.ActorSystem
	actors   []*mailbox // those that are left, in order of spawning
	restarts restarts
}

var (
	_ actor.Process    = (*root)(nil)
	_ actor.Supervisor = (*root)(nil)
)

func (r *root) SendUserMessage(_ *actor.PID, message any) { r.s.faults.cancel(message) }

func (r *root) SendSystemMessage(_ *actor.PID, message any) {
	if !r.s.OnShard() {
		return // only root actors report here, and they run on the shard
	}
	switch m := message.(type) {
	case *actor.Failure:
		r.strategy.HandleFailure(r.system, r, m.Who, m.RestartStats, m.Reason, m.Message)
	case *actor.Terminated:
		for i, a := range r.actors {
			if a.pid == m.Who {
				r.actors = append(r.actors[:i:i], r.actors[i+1:]...)
				break
			}
		}
	}
}

func (r *root) Stop(*actor.PID) {}

func (r *root) Children() []*actor.PID {
	pids := make([]*actor.PID, len(r.actors))
	for i, a := range r.actors {
		pids[i] = a.pid
	}
	return pids
}

// EscalateFailure is never called: the strategy of root actors restarts or stops.
func (r *root) EscalateFailure(any, any) {}

func (r *root) RestartChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.send(pid, &actor.Restart{})
	}
}

func (r *root) StopChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.send(pid, &actor.Stop{})
	}
}

func (r *root) ResumeChildren(pids ...*actor.PID) {
	for _, pid := range pids {
		r.send(pid, &actor.ResumeMailbox{})
	}
}

func (r *root) registry() *actor.ProcessRegistryValue { return r.system.ProcessRegistry }

// send sends a system message to the process that has the PID.
func (r *root) send(pid *actor.PID, message any) {
	if proc, ok := r.registry().Get(pid); ok {
		proc.SendSystemMessage(pid, message)
	}
}

// rootSpawner makes root the parent of what it spawns.
type rootSpawner struct {
	*actor.RootContext
	self *actor.PID
}

func (r rootSpawner) Self() *actor.PID { return r.self }

// sharedSystem is the one actor system of the process: it costs 2.8 MB, so shards share
// it, and the last one to close drops it.
var sharedSystem struct {
	mu     sync.Mutex
	system *actor.ActorSystem
	users  int
}

// acquireSystem returns the actor system and the name under which root, a
// shard's root process, is registered in it.
func acquireSystem(name string, root actor.Process) (*actor.ActorSystem, *actor.PID) {
	sharedSystem.mu.Lock()
	defer sharedSystem.mu.Unlock()
	if sharedSystem.users == 0 {
		sharedSystem.system = actor.NewActorSystem(
			// Shards log failures themselves; protoactor's default writes to stderr.
			actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
			// The throttle of dead letters keeps a goroutine for its interval.
			actor.WithDeadLetterThrottleInterval(time.Nanosecond),
		)
	}
	sharedSystem.users++
	for i := 1; ; i++ {
		id := name
		if i > 1 {
			id += "#" + strconv.Itoa(i)
		}
		if pid, absent := sharedSystem.system.ProcessRegistry.Add(root, id); absent {
			return sharedSystem.system, pid
		}
	}
}

func releaseSystem(root *actor.PID) {
	sharedSystem.mu.Lock()
	defer sharedSystem.mu.Unlock()
	sharedSystem.system.ProcessRegistry.Remove(root)
	if sharedSystem.users--; sharedSystem.users == 0 {
		sharedSystem.system = nil
	}
}

// faults counts and logs what goes wrong: messages that reached no actor, and panics.
// Any goroutine may use it.
type faults struct {
	log                *slog.Logger
	name               string // of the shard
	canceled, failures atomic.Uint64
}

// cancel ends a message that reached no actor.
func (f *faults) cancel(msg any) {
	msg = actor.UnwrapEnvelopeMessage(msg)
	if c, ok := msg.(Canceled); ok {
		defer func() {
			if r := recover(); r != nil {
				f.log.Error("Canceled panicked", "shard", f.name, "reason", r)
			}
		}()
		c.Canceled()
		return
	}
	f.canceled.Add(1)
}

// panicked counts and logs a panic of an actor, or of a poller that is no actor's.
func (f *faults) panicked(actor string, reason any) {
	f.failures.Add(1)
	if f.log.Enabled(context.Background(), slog.LevelError) {
		f.log.Error("actor failed", "actor", actor, "reason", reason, "stack", string(debug.Stack()))
	}
}
