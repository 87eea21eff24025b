package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/runtime/clock"
)

// Remote is an actor system's way to other processes. Its methods may be called by any number of
// goroutines.
type Remote struct {
	system  *actor.ActorSystem
	root    *actor.RootContext // without the middleware of the application's
	log     *slog.Logger
	ep      *efa.Endpoint
	close   func() error // of the endpoint, if it is the Remote's own
	cfg     Config
	name    string // what PIDs of this process have as their address
	address efa.Address
	codecs  *codecs
	kinds   sync.Map // name to *actor.Props
	counts  counts

	ctx    context.Context
	cancel context.CancelFunc
	served sync.WaitGroup
	crew   crew
	inject int // the longest frame that is injected

	names     table
	events    events
	greeters  greeters
	answers   rates // of frames that are answered
	lines     rates // of what peers do, in the log
	strangers lane  // frames of peers without a session
	turns     turns
	discards  atomic.Int32 // of messages without a session
}

// Connected is published on the system's EventStream when a process is there.
type Connected struct{ Address string }

// Lost is published on the system's EventStream when a process is lost, or not there.
type Lost struct {
	Address string
	Err     error
}

// Stats are counts since Start.
type Stats struct {
	Received    uint64 // user messages
	DeadLetters uint64 // user messages to others that were not delivered, as far as is known
	Undecodable uint64 // messages that no codec here takes
	Malformed   uint64 // frames and system messages that broke the protocol
}

type counts struct{ received, dead, undecodable, malformed atomic.Uint64 }

// Stats returns the counts.
func (r *Remote) Stats() Stats {
	return Stats{r.counts.received.Load(), r.counts.dead.Load(), r.counts.undecodable.Load(), r.counts.malformed.Load()}
}

// Address is what PIDs of this process have as their address.
func (r *Remote) Address() string { return r.name }

// Close ends the Remote: messages that wait leave first, until ctx ends, and other processes are
// told. PIDs of other processes are dead letters from then on. The actor system goes on. What is the
// application's own and does not return, as Config.Resolve, is waited for until ctx ends.
func (r *Remote) Close(ctx context.Context) (err error) {
	defer errtext.Wrap("remote", "close", &err)
	links, err := r.names.end()
	if err != nil {
		return err
	}
	var flushing sync.WaitGroup
	for _, l := range links {
		flushing.Go(func() {
			_ = l.drain(ctx) // what does not leave is a dead letter
			l.end()
		})
	}
	flushing.Wait()
	r.system.Root.Stop(actor.NewPID(r.name, spawner))
	if r.close != nil {
		err = r.ep.Shutdown(ctx)
	}
	r.cancel()
	served := make(chan struct{})
	go func() { r.served.Wait(); close(served) }()
	select {
	case <-served:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if r.close != nil {
		err = errors.Join(err, r.close())
	}
	return err
}

// process is what PIDs with an address resolve to.
func (r *Remote) process(pid *actor.PID) (actor.Process, bool) {
	return r.names.name(pid.Address), true
}

// resolve finds the endpoint of a process.
func (r *Remote) resolve(ctx context.Context, name string) (efa.Address, error) {
	if r.cfg.Resolve != nil {
		return r.cfg.Resolve(ctx, name)
	}
	if a, err := efa.ParseAddress(name); err == nil {
		return a, nil
	}
	return efa.ResolveAddress(ctx, name)
}

// fly has a frame leave. A short one, first, has left at once. One that follows is on its way for a while, and so has the next
// take many messages.
func (r *Remote) fly(at efa.Addr, b *batch, first bool) flight {
	if first && len(b.buf) <= r.inject {
		return flight{b: b, err: r.ep.SendTag(r.ctx, at, tagFrames, b.buf, efa.Inject)}
	}
	op, err := r.ep.Start(&efa.SendReq{To: at, Tagged: true, Tag: tagFrames, Buf: b.buf})
	if errors.Is(err, efa.ErrAgain) {
		err = r.ep.SendTag(r.ctx, at, tagFrames, b.buf) // it waits for its place
	}
	return flight{b, op, err}
}

// landed waits until the buffer of a frame is free.
func (r *Remote) landed(op *efa.Op) error {
	if _, err := op.Wait(r.ctx); r.ctx.Err() == nil {
		return err
	}
	op.Cancel()
	<-op.Done()
	_, err := op.Wait(r.ctx) // it is over
	return err
}

// tell has a short frame leave without waiting for anything.
func (r *Remote) tell(at efa.Addr, b []byte) error {
	_, err := r.ep.Start(&efa.SendReq{To: at, Tagged: true, Tag: tagOf(b), Buf: b})
	return err
}

func (r *Remote) now() clock.Time { return clock.System.Now() }

// ping asks all others now and then whether they still know this process.
func (r *Remote) ping() {
	again := clock.NewTimer(r.cfg.pingEvery)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			again.Reset(r.cfg.pingEvery)
			for _, l := range r.names.all() {
				l.ping()
			}
		case <-r.ctx.Done():
			return
		}
	}
}

// events publishes what has happened, one after the other, by a goroutine that is there as long as there is
// something: a subscriber may send, wait, and close the Remote.
type events struct {
	stream *eventstream.EventStream
	log    *slog.Logger

	mu         sync.Mutex
	waiting    []any
	publishing bool
}

// maxEvents is how many events wait for subscribers until no new session is accepted.
const maxEvents = 1 << 16

func (q *events) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) >= maxEvents
}

func (q *events) publish(e any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting = append(q.waiting, e); !q.publishing {
		q.publishing = true
		go q.run()
	}
}

func (q *events) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.publishing, q.waiting = false, nil
			q.mu.Unlock()
			return
		}
		e := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		q.one(e)
	}
}

// one publishes an event. A subscriber that panics ends this one alone.
func (q *events) one(e any) {
	defer func() {
		if p := recover(); p != nil {
			q.log.Error("remote: a subscriber panicked", slog.Any("panic", p))
		}
	}()
	q.stream.Publish(e)
}

// begin starts everything.
func (r *Remote) begin() error {
	registry := r.system.ProcessRegistry
	if registry.Address != "nonhost" || registry.SequenceID != 0 {
		return ErrStarted
	}
	registry.Address = r.name
	registry.RegisterAddressResolver(r.process)
	if _, err := r.system.Root.SpawnNamed(actor.PropsFromFunc(r.spawns), spawner); err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	r.served.Add(1) // as long as there is one that receives
	r.crew.do(nil)
	r.served.Go(func() { r.apart(tagHello) })
	r.served.Go(func() { r.apart(tagCredit) })
	r.served.Go(r.ping)
	return nil
}

// The errors of this package, to be found by errors.Is.
var (
	// ErrStarted: Start comes once for a system, and before anything is spawned there, since the
	// PIDs of earlier actors would name no process.
	ErrStarted = errors.New("remote: the actor system has an address, or actors, already")
	// ErrNoCodec: a message is neither protobuf nor of a type that a codec of Config takes.
	ErrNoCodec = errors.New("remote: no codec takes the message")
	// ErrTooLong: a message is longer than Config.MaxMessage.
	ErrTooLong = errors.New("remote: message too long")
	// ErrNoKind: the other process has no such kind.
	ErrNoKind = errors.New("remote: no such kind")
	// ErrNameExists: the other process has an actor of that name; Spawn returns its PID as well.
	ErrNameExists = errors.New("remote: the name exists")
	// ErrUnreachable: nobody answers at the address, or what answers is not this protocol.
	ErrUnreachable = errors.New("remote: unreachable")
	// ErrClosed: the Remote was closed, here or at the other side.
	ErrClosed = errors.New("remote: closed")

	errForgotten = fmt.Errorf("%w: the other side has taken this one for dead meanwhile, or was started again", ErrUnreachable)
	errFrame     = errors.New("remote: the other side broke the protocol")
)

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
}
