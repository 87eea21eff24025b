//go:build linux

package libfabric_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/agent"
	"github.com/efactor/efactor/interop/libfabric/emulator"
	"github.com/efactor/efactor/interop/libfabric/native"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// Patience with one scenario, and with the end of a process.
const (
	scenarioTime = 2 * time.Minute
	stopTime     = time.Minute
)

// world is a fabric with a libfabric and an efactor endpoint on it.
type world struct {
	env   environment
	dir   string
	lf    *agent.Agent
	own   party.Party
	node  *native.Node // it is own, but in TestReference
	other *agent.Agent // it is own in TestReference
	tap   *packets
	toOwn party.Peer // libfabric's handle of efactor
	toLF  party.Peer // efactor's of libfabric

	endCard func() error // of environment.card
}

// missing reports whether err means that the machine lacks a requirement.
func missing(err error) bool {
	for _, e := range []error{agent.ErrNoCompiler, agent.ErrNoLibfabric, exec.ErrNotFound, emulator.ErrUnsupported} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// newWorld starts both, opens their endpoints and lets them know each other.
func newWorld(t *testing.T, e environment) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTime)
	defer cancel()
	w := bareWorld(t, ctx, e)
	require.NoError(t, w.lf.Open(ctx), "%s", w)
	require.NoError(t, w.own.Open(ctx))
	w.introduce(t, ctx)
	return w
}

// bareWorld starts both sides without endpoints.
func bareWorld(t *testing.T, ctx context.Context, e environment) *world {
	t.Helper()
	w := &world{env: e, dir: fabric(t), tap: newPackets()}
	w.lf = startAgent(t, ctx, e, w.dir, "libfabric")
	if e.reference {
		w.other = startAgent(t, ctx, e, w.dir, "the other libfabric")
		w.own = w.other
		return w
	}
	cfg := native.Config{Device: "shm:" + w.dir, Protocol: e.protocol, Direct: e.direct, Tap: w.tap, SameQPN: true}
	if e.card {
		cfg.Open, cfg.SameQPN = w.openCard(t), false
	}
	var err error
	w.node, err = native.New(cfg)
	require.NoError(t, err)
	w.own = w.node
	return w
}

// startAgent starts another libfabric on the fabric of dir.
func startAgent(t *testing.T, ctx context.Context, e environment, dir, name string) *agent.Agent {
	t.Helper()
	found := need(t)
	cfg := agent.Config{Name: name, Command: found.emulator.Command(e.on(dir), found.agent...), Env: append(common, e.env...)}
	if e.direct {
		cfg.Caps, cfg.Options = directCaps, directOptions
		if e.device != "" {
			cfg.Caps += ",rma"
		}
	}
	a, err := agent.Start(ctx, cfg)
	require.NoError(t, err)
	return a
}

// introduce puts each into the other's address vector.
func (w *world) introduce(t *testing.T, ctx context.Context) {
	t.Helper()
	var err error
	w.toOwn, err = w.lf.Insert(ctx, w.own.Address())
	require.NoError(t, err)
	w.toLF, err = w.own.Insert(ctx, w.lf.Address())
	require.NoError(t, err)
}

// String is all that is known, for a failure.
func (w *world) String() string {
	s := w.tap.String() + "\n" + w.lf.Log()
	if w.other != nil {
		s += "\n" + w.other.Log()
	}
	return s
}

// stop ends both, and finds their leftovers.
func (w *world) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	err := w.lf.Stop(ctx)
	if w.other != nil {
		err = errors.Join(err, w.other.Stop(ctx))
	}
	if w.node != nil {
		err = errors.Join(err, w.node.Stop())
	}
	if w.endCard != nil {
		err = errors.Join(err, w.endCard())
	}
	w.sweep()
	return errors.Join(err, os.RemoveAll(w.dir))
}

// sweep removes what a libfabric that was killed has left of its own shared memory,
// named after the GID, which is this fabric's alone.
func (w *world) sweep() {
	l, err := efa.OpenDevice("shm:" + w.dir)
	if err != nil {
		return
	}
	gid := netip.AddrFrom16(l.Info().GID)
	_ = l.Close()
	left, _ := filepath.Glob(filepath.Join("/dev/shm", gid.String()+"_*"))
	for _, path := range left {
		_ = os.Remove(path)
	}
}

// end is stop for tests that have a world of their own.
func (w *world) end(t *testing.T) {
	t.Helper()
	err := w.stop()
	if t.Failed() {
		t.Log(w)
		return
	}
	require.NoError(t, err, "%s", w)
}

// shared are worlds that scenarios have one after the other: a process is started
// once for each environment, and the first message of two endpoints takes long.
var shared = map[string]*world{}

// share returns the world of e, new or used.
func share(t *testing.T, e environment) *world {
	t.Helper()
	if w := shared[e.title()]; w != nil {
		return w
	}
	w := newWorld(t, e)
	shared[e.title()] = w
	w.warmUp(t)
	return w
}

// drop ends a shared world in which something has gone wrong, or that is not needed
// any more.
func drop(t *testing.T, e environment) {
	t.Helper()
	if w := shared[e.title()]; w != nil {
		delete(shared, e.title())
		if err := w.stop(); !t.Failed() {
			require.NoError(t, err, "%s", w)
		}
	}
}

// stopShared ends those that are left when a run was cut short.
func stopShared() {
	for _, w := range shared {
		_ = w.stop()
	}
}

// warmUp has the first messages behind, which meet a receiver that is not ready.
func (w *world) warmUp(t *testing.T) {
	t.Helper()
	for _, begins := range []role{libfabricBegins, efactorBegins} {
		p := w.play(t, begins)
		p.exchange(party.Op{Size: 10}, party.Op{})
		p.cancel()
	}
}
