package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// Config configures the program and how libfabric is opened.
type Config struct {
	Name     string   // "" for "libfabric"
	Command  []string // the program, perhaps as arguments of another one
	Env      []string // in addition to this process's
	Provider string   // "" for efa
	Caps     string   // "" for the agent's own
	Options  string   // more words for open
}

// Agent is libfabric as a party.
type Agent struct {
	cfg     Config
	proc    *process
	notices chan party.Outcome
	lastID  atomic.Uint64

	mu       sync.Mutex
	pending  map[uint64]*party.Pending
	events   []Event
	greeting words
	opened   words
	finished error
}

// Event came from libfabric's event queue: an error that belongs to no operation.
type Event struct {
	Errno, Provider int
	Text            string
}

var _ party.Party = (*Agent)(nil)

// Start starts the process and waits until it takes commands.
func Start(ctx context.Context, cfg Config) (*Agent, error) {
	if cfg.Name == "" {
		cfg.Name = "libfabric"
	}
	if cfg.Provider == "" {
		cfg.Provider = "efa"
	}
	a := &Agent{cfg: cfg, pending: map[uint64]*party.Pending{}, notices: make(chan party.Outcome, 256)}
	var err error
	if a.proc, err = launch(cfg.Command, cfg.Env, a.event); err != nil {
		return nil, err
	}
	go a.watch()
	select {
	case <-a.proc.ready:
		return a, nil
	case <-a.proc.dead:
		err = a.proc.gone()
	case <-ctx.Done():
		err = ctx.Err()
	}
	a.proc.kill()
	<-a.proc.dead
	return nil, fmt.Errorf("%w\n%s", err, a.Log())
}

// watch ends pending operations when the process has ended.
func (a *Agent) watch() {
	<-a.proc.dead
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finished = ErrGone
	for id, p := range a.pending {
		p.Resolve(party.Outcome{}, a.proc.gone())
		delete(a.pending, id)
	}
}

// Stop closes what is open and ends the process.
func (a *Agent) Stop(ctx context.Context) error { return a.proc.stop(ctx) }

// Kill ends the process at once.
func (a *Agent) Kill() {
	a.proc.kill()
	<-a.proc.dead
}

// Log holds the commands, answers and libfabric's log, for a failure.
func (a *Agent) Log() string {
	return fmt.Sprintf("--- %s: commands and answers\n%s--- %s: standard error\n%s",
		a.cfg.Name, &a.proc.said, a.cfg.Name, &a.proc.stderr)
}

// Stderr is libfabric's log.
func (a *Agent) Stderr() string { return a.proc.stderr.String() }

// Name implements party.Party.
func (a *Agent) Name() string { return a.cfg.Name }

// Version is the release of the library that the program runs on, as it says itself.
func (a *Agent) Version() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.greeting["version"]
}

// PID is the program's process id.
func (a *Agent) PID() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.greeting.int("pid", 0)
}

// Notices implements party.Party.
func (a *Agent) Notices() <-chan party.Outcome { return a.notices }

// Events returns those since the last call.
func (a *Agent) Events() []Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	events := a.events
	a.events = nil
	return events
}

// event takes a line that came by itself.
func (a *Agent) event(verb string, w words) {
	switch verb {
	case "done", "fail", "flood":
		id, out := w.uint("id"), w.outcome()
		if verb == "flood" && w["ok"] != "1" {
			out.Errno = otherError
		}
		a.mu.Lock()
		p := a.pending[id]
		delete(a.pending, id)
		a.mu.Unlock()
		switch {
		case p != nil:
			p.Resolve(out, nil)
		case id == 0:
			select {
			case a.notices <- out:
			default: // not awaited; the log has it
			}
		}
	case "ready":
		a.mu.Lock()
		a.greeting = w
		a.mu.Unlock()
	case "event", "stuck":
		a.mu.Lock()
		a.events = append(a.events, Event{w.int("err", 0), w.int("prov", 0), verb + ": " + w["text"] + w["command"]})
		a.mu.Unlock()
	}
}

// otherError is FI_EOTHER.
const otherError = 256

// Open implements party.Party. An agent that cannot open is ended: nobody would stop it,
// and it, its device and its log would be there for as long as the tests.
func (a *Agent) Open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			a.Kill()
		}
	}()
	var l line
	l.verb("open")
	l.text("provider", a.cfg.Provider)
	l.when(a.cfg.Caps != "", func() { l.text("caps", a.cfg.Caps) })
	l.WriteString(" " + a.cfg.Options)
	w, err := a.proc.call(ctx, strings.TrimSpace(l.String()))
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.opened = w
	a.mu.Unlock()
	return nil
}

// Close implements party.Party.
func (a *Agent) Close(ctx context.Context) error {
	_, err := a.proc.call(ctx, "close")
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, p := range a.pending { // fi_close ends them without a word
		p.Resolve(party.Outcome{}, errors.New("agent: the endpoint was closed"))
		delete(a.pending, id)
	}
	return err
}

func (a *Agent) property(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opened[key]
}

// Address implements party.Party.
func (a *Agent) Address() []byte { return words{"a": a.property("address")}.bytes("a") }

// MaxInject implements party.Party.
func (a *Agent) MaxInject() int { return words{"n": a.property("inject")}.int("n", 0) }

// Insert implements party.Party.
func (a *Agent) Insert(ctx context.Context, address []byte) (party.Peer, error) {
	var l line
	l.verb("insert")
	l.bytes("address", address)
	w, err := a.proc.call(ctx, l.String())
	return party.Peer(w.int("peer", -1)), err
}

// Remove implements party.Party.
func (a *Agent) Remove(ctx context.Context, p party.Peer) error {
	_, err := a.proc.call(ctx, fmt.Sprintf("remove peer=%d", p))
	return err
}

// Counters implements party.Party.
func (a *Agent) Counters(ctx context.Context) (party.Counters, error) {
	w, err := a.proc.call(ctx, "counters")
	c := party.Counters{
		Send: w.uint("send"), Recv: w.uint("recv"), Write: w.uint("write"), Read: w.uint("read"),
		RemoteWrite: w.uint("remotewrite"),
	}
	for _, k := range []string{"send", "recv", "write", "read", "remotewrite"} {
		c.Failed += w.uint(k + ".err")
	}
	return c, err
}

// PlanSum is the agent's sum of a plan, see party.Sum.
func (a *Agent) PlanSum(ctx context.Context, seed uint64, n, most, inject int) (uint64, error) {
	w, err := a.proc.call(ctx, fmt.Sprintf("plan seed=%d n=%d max=%d inject=%d", seed, n, most, inject))
	return w.uint("sum"), err
}

// Pause has the agent do nothing for a while, not even progress.
func (a *Agent) Pause(ctx context.Context, d time.Duration) error {
	_, err := a.proc.call(ctx, fmt.Sprintf("pause ms=%d", d.Milliseconds()))
	return err
}
