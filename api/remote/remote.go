package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

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

	ctx       context.Context
	cancel    context.CancelFunc
	served    sync.WaitGroup
	verifying chan struct{}

	mu     sync.RWMutex
	ended  bool
	links  map[string]*link   // by name
	peers  map[efa.Addr]*link // those that are not idle
	inject int                // the longest frame that is injected
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
// told. PIDs of other processes are dead letters from then on. The actor system goes on.
func (r *Remote) Close(ctx context.Context) (err error) {
	defer errtext.Wrap("remote", "close", &err)
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return ErrClosed
	}
	r.ended = true
	r.mu.Unlock()
	var flushing sync.WaitGroup
	for _, l := range r.all() {
		flushing.Go(func() {
			_ = l.drain(ctx) // what does not leave is a dead letter
			l.end()
		})
	}
	flushing.Wait()
	_ = r.system.Root.StopFuture(actor.NewPID(r.name, spawner)).Wait()
	err = error(nil)
	if r.close != nil {
		err = r.ep.Shutdown(ctx)
	}
	r.cancel()
	r.served.Wait()
	if r.close != nil {
		err = errors.Join(err, r.close())
	}
	return err
}

// closing reports whether Close was called.
func (r *Remote) closing() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ended
}

// process is what PIDs with an address resolve to: the way there, if there is one.
func (r *Remote) process(pid *actor.PID) (actor.Process, bool) {
	if l := r.link(pid.Address); l != nil {
		return l, true
	}
	return nil, false
}

// link is the way to an address; nil if there are too many.
func (r *Remote) link(name string) *link {
	r.mu.RLock()
	l := r.links[name]
	r.mu.RUnlock()
	if l != nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.links[name]; l != nil {
		return l
	}
	if len(r.links) >= r.cfg.MaxAddresses || r.ended {
		return nil
	}
	l = &link{r: r, name: name}
	r.links[name] = l
	return l
}

func (r *Remote) all() []*link {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*link, 0, len(r.links))
	for _, l := range r.links {
		all = append(all, l)
	}
	return all
}

// known has frames from a peer be those of a link.
func (r *Remote) known(at efa.Addr, l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.peers[at] = l
}

func (r *Remote) unknown(at efa.Addr, l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers[at] == l {
		delete(r.peers, at)
	}
}

// of is the link of a peer; nil: there is no session with it.
func (r *Remote) of(at efa.Addr) *link {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.peers[at]
}

// resolve finds the endpoint of a process.
func (r *Remote) resolve(ctx context.Context, name string) (efa.Address, error) {
	if r.cfg.Resolve != nil {
		return r.cfg.Resolve(ctx, name)
	}
	if a, err := efa.ParseAddress(name); err == nil {
		return a, nil
	}
	at, err := r.ep.AddressVector().Resolve(ctx, name)
	if err != nil {
		return efa.Address{}, err
	}
	return r.ep.AddressVector().Lookup(at)
}

// send has a frame leave, and waits until its buffer is free; that of a short one, straight, is
// at once.
func (r *Remote) send(at efa.Addr, b []byte, straight bool) error {
	if straight {
		return r.ep.SendTag(r.ctx, at, tagFrames, b, efa.Inject)
	}
	return r.ep.SendTag(r.ctx, at, tagFrames, b)
}

// tell has a short frame leave without waiting for anything.
func (r *Remote) tell(at efa.Addr, b []byte) error {
	_, err := r.ep.Start(&efa.SendReq{To: at, Tagged: true, Tag: tagFrames, Buf: b})
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
			for _, l := range r.all() {
				l.ping()
			}
		case <-r.ctx.Done():
			return
		}
	}
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
	r.served.Go(r.receive)
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
