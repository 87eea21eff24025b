package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// command is one kind of trial.
type command struct {
	name    string
	devices string // that it is for
	run     func(*trial) error
	apart   bool // in a network namespace of its own, which root alone makes
}

// commands are all trials, by the names that the command line has for them.
var commands = []command{
	{"resets", "tcp", (*trial).resets, true},
	{"aliases", "auto", (*trial).aliases, false},
	{"floods", "shm,tcp,auto", (*trial).floods, false},
	{"restarts", "shm,tcp,auto", (*trial).restarts, false},
	{"slow", "shm,tcp,auto", (*trial).slow, false},
	{"descriptors", "shm,tcp,auto", (*trial).descriptors, false},
}

func commandOf(name string) *command {
	for i := range commands {
		if commands[i].name == name {
			return &commands[i]
		}
	}
	return nil
}

// trial is a command at work on one device, in a process of its own, which has legitimate
// endpoints in it. Foes, and processes that are killed, are its children.
type trial struct {
	role
	w   *watch
	rng *rand.Rand
	ctx context.Context // ends when the time is up

	mu    sync.Mutex
	kinds map[string]uint64
	hung  bool // a call has not returned, and holds what it needs
}

// runTrial is the process of a command.
func runTrial(r role, in io.Reader, out *line, run func(*trial) error) error {
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(0) // the conductor is gone
	}()
	before := held()
	ctx, cancel := context.WithTimeout(context.Background(), r.For)
	defer cancel()
	t := &trial{role: r, w: newWatch(), rng: rand.New(rand.NewPCG(r.Seed, 29)), ctx: ctx, kinds: map[string]uint64{}}
	look, end := context.WithCancel(context.Background())
	looking := make(chan struct{})
	go func() { defer close(looking); t.w.look(look, t.PeerTimeout, func(clock.Time) {}) }()
	err := run(t)
	end()
	<-looking
	if err != nil {
		t.w.wrong("%s: %v", t.Is, err)
	} else if text := leaked(before); text != "" && !t.hung {
		t.w.wrong("%s", text)
	}
	m := t.w.report()
	m.Kinds = t.kinds
	for _, n := range t.kinds {
		m.Connections += n
	}
	out.say(news{Closed: true, Report: m})
	return nil
}

// did counts something by its kind.
func (t *trial) did(kind string, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kinds[kind] += n
}

// errHangs is that of a call that does not return.
var errHangs = errors.New("it has not returned")

// within makes a call that has to end well within Steady.
func (t *trial) within(what string, f func(context.Context) error) error {
	return t.limited(what, t.Steady, true, f)
}

// ends makes a call that has to end within a time, well or not.
func (t *trial) ends(what string, most time.Duration, f func(context.Context) error) error {
	return t.limited(what, most, false, f)
}

// limited leaves a call behind that never returns. The context of a call ends late, so that
// what it should have done by itself shows.
func (t *trial) limited(what string, most time.Duration, well bool, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*most+neverBack)
	defer cancel()
	c := t.w.begin(what, most, well)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	patience := clock.NewTimer(3*most + 2*neverBack)
	defer patience.Stop()
	select {
	case err := <-done:
		return c.end(err)
	case <-patience.C:
		_ = c.end(nil)
		t.mu.Lock()
		t.hung = true
		t.mu.Unlock()
		t.w.wrong("%s: %v after %v", what, errHangs, 3*most+2*neverBack)
		t.stacks()
		return errHangs
	}
}

// stacks writes where this process is, if the environment names a file for that.
func (t *trial) stacks() {
	if file := os.Getenv(stacksVar); file != "" {
		b := make([]byte, 4<<20)
		_ = os.WriteFile(fmt.Sprintf("%s.%s-%s", file, t.Is, t.Device), b[:runtime.Stack(b, true)], 0o600)
	}
}

// child begins another process of this program, for a part of the trial.
func (t *trial) child(is string, change func(*role)) (*proc, error) {
	r := t.role
	r.Is, r.Apart = is, false
	change(&r)
	return begin(r, 0)
}

// setup opens endpoints on the device of a role.
func (r *role) setup() efa.Setup {
	name := r.Device
	switch name {
	case "shm":
		name = "shm:" + r.Dir
	case "tcp":
		name = "tcp:127.0.0.1"
	}
	return efa.Setup{
		Fabric:   efa.Config{DeviceName: name},
		Domain:   efa.DomainConfig{Spin: time.Microsecond},
		Endpoint: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: r.PeerTimeout}},
	}
}

// apart has a command begin in a network namespace of its own.
func apart(cmd *exec.Cmd) *exec.Cmd {
	return exec.Command("unshare", append([]string{"--net", "--"}, cmd.Args...)...)
}

// loopbackUp makes the loopback of a new namespace work.
func loopbackUp() error {
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set lo up: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// trial runs a command and takes its report.
func (c *conductor) trial(ctx context.Context) {
	var err error
	if c.Dir, err = os.MkdirTemp(shared(), "efactor-attack-"); err != nil {
		c.row.wrong("%v", err)
		return
	}
	defer os.RemoveAll(c.Dir)
	p, err := begin(c.role, 0)
	if err != nil {
		c.row.wrong("%v", err)
		return
	}
	defer p.kill()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { <-ctx.Done(); _ = p.in.Close() }()
	n, err := p.await("report", c.For+5*time.Minute, func(n *news) bool { return n.Closed })
	if err != nil {
		c.row.wrong("%v", err)
		return
	}
	c.row.add(n.Report, "steady")
}
