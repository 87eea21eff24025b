package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// floodKinds are what one process sends without end to another, above the device.
var floodKinds = []string{"open", "ping", "reset", "hello", "slow names", "codec", "spawn", "messages", "slow actor"}

const (
	floodRole = "flood"
	// floodMemory is what the process may grow by: what efanet gives one peer, which is more than
	// remote does, and a quarter for what the collector has not found yet.
	floodMemory = 5 << 28
)

// floods has one foe after the other that floods a service, with each kind. Others dial and ask
// meanwhile, and neither fail nor wait for long; the memory of the service is bounded.
func (t *trial) floods() error {
	each := max(t.For/time.Duration(2*len(floodKinds)), 500*time.Millisecond)
	kinds := floodKinds
	if t.Only != "" {
		kinds = strings.Split(t.Only, ",")
	}
	bad := map[string]bool{} // once is enough
	for n := 0; n < len(kinds) || t.ctx.Err() == nil; n++ {
		if n%len(kinds) == 0 {
			t.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		if kind := kinds[n%len(kinds)]; !bad[kind] {
			good, err := t.flood(kind, each)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			bad[kind] = !good
		}
		if len(bad) == len(kinds) && !slices.Contains(slices.Collect(maps.Values(bad)), false) {
			break
		}
	}
	return nil
}

// flood is one kind, for a time. It reports whether others got through.
func (t *trial) flood(kind string, each time.Duration) (good bool, err error) {
	v, err := openService(context.Background(), t.setup(), "")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	v.r.Register("echo", echoing)
	c, err := openClient(context.Background(), t.setup())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	at, actors := v.l.Address().String(), v.r.Address()
	if err := t.within("dial", func(ctx context.Context) error { return c.keep(ctx, at) }); err != nil {
		return false, nil
	}
	debug.FreeOSMemory()
	before, most := resident(), uint64(0)
	foes := 1
	if kind == "messages" || kind == "slow actor" {
		foes = 2 // neither of which has all of the time
	}
	for range foes {
		p, err := t.flooder(v, kind, each)
		if err != nil {
			return false, err
		}
		defer p.kill()
	}
	during := " during a flood of " + strings.ToUpper(kind)
	good = true
	for began := clock.System.Now(); good && clock.System.Now().Sub(began) < each; _ = pause(t.ctx, 5*time.Millisecond) {
		good = t.within("dial"+during, func(ctx context.Context) error { return c.once(ctx, at) }) == nil &&
			t.within("exchange"+during, func(ctx context.Context) error { return exchange(ctx, c.kept) }) == nil &&
			t.within("request"+during, func(ctx context.Context) error { return c.ask(ctx, actors) }) == nil &&
			t.within("spawn"+during, func(ctx context.Context) error { return c.spawn(ctx, actors) }) == nil
		most = max(most, resident())
	}
	if most > before+floodMemory {
		t.w.wrong("the service has grown by %d MiB%s, from %d MiB", (most-before)>>20, during, before>>20)
		good = false
	}
	n, err := openClient(context.Background(), t.setup())
	if err != nil {
		return false, err
	}
	good = t.within("a new process' dial"+during, func(ctx context.Context) error { return n.once(ctx, at) }) == nil &&
		t.within("a new process' request"+during, func(ctx context.Context) error { return n.ask(ctx, actors) }) == nil && good
	return good, n.close()
}

// flooder begins a foe that floods, and counts what it sends until it is killed.
func (t *trial) flooder(v *service, kind string, each time.Duration) (*proc, error) {
	device := t.Device
	if device == "auto" && t.rng.IntN(2) == 0 {
		device = "tcp" // from afar
	}
	p, err := t.child(floodRole, func(r *role) {
		r.Only, r.Device, r.For, r.At = kind, device, each+time.Minute, []efa.Address{v.l.Address(), v.ep.Address()}
		r.Seed = t.rng.Uint64()
	})
	if err != nil {
		return nil, err
	}
	if _, err := p.await("flood", 2*t.mortal(), func(n *news) bool { return n.Did != "" }); err != nil {
		p.kill()
		return nil, err
	}
	go func() {
		for n := range p.news {
			t.did(kind, n.Number)
		}
	}()
	return p, nil
}

// resident is how much memory this process has, as the system counts it.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// runFlood is such a foe.
func runFlood(r role, in io.Reader, out *line) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.For)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(0)
	}()
	victim := r.At[0]
	actors := r.Only != "open" && r.Only != "ping" && r.Only != "reset"
	if actors {
		victim = r.At[1]
	}
	l, err := newLiar(ctx, r.setup(), victim)
	if err != nil {
		return err
	}
	f := flooder{liar: l, mine: l.ep.Address().String()}
	if err := f.enter(ctx, r.Only); err != nil {
		return err
	}
	if r.Only == "slow names" {
		if f.names, err = silentNames(ctx, 200); err != nil {
			return err
		}
	}
	var sent atomic.Uint64
	var senders sync.WaitGroup
	for i := range 8 * runtime.GOMAXPROCS(0) {
		senders.Go(func() {
			rng := rand.New(rand.NewPCG(r.Seed, uint64(i)))
			for ctx.Err() == nil {
				if f.send(ctx, r.Only, rng) == nil {
					sent.Add(1)
				} else {
					_ = pause(ctx, time.Millisecond)
				}
			}
		})
	}
	out.say(news{Did: "begun"})
	for last := uint64(0); pause(ctx, 100*time.Millisecond) == nil; {
		now := sent.Load()
		out.say(news{Did: "sent", Number: now - last})
		last = now
		_ = f.enter(ctx, r.Only) // it ends with ctx
	}
	senders.Wait()
	return nil
}

// flooder sends frames that are right by themselves, and of which there are too many.
type flooder struct {
	*liar
	mine   string
	theirs atomic.Uint64 // the number of a session
	names  []string      // of places that do not answer
}

// enter begins a session for the kinds that need one, or the next where that was ended.
func (f *flooder) enter(ctx context.Context, kind string) error {
	if !slices.Contains([]string{"codec", "spawn", "messages", "slow actor"}, kind) {
		return nil
	}
	theirs, err := f.session(ctx, 77, f.mine)
	if err == nil {
		f.theirs.Store(theirs)
	}
	return err
}

func (f *flooder) send(ctx context.Context, kind string, rng *rand.Rand) error {
	nowhere := fmt.Sprintf("127.%d.%d.%d:%d", 1+rng.IntN(250), rng.IntN(256), 1+rng.IntN(250), 1+rng.IntN(1000))
	switch kind {
	case "open":
		return f.net(ctx, laneOpen, 0, netOpen, 1, opening(1+rng.Uint64N(1<<40), 5, f.mine))
	case "ping":
		return f.net(ctx, laneOpen, 0, netPing, 0, append(binary.LittleEndian.AppendUint64(nil, 1+rng.Uint64N(1<<40)), f.mine...))
	case "reset":
		return f.net(ctx, laneStream, 1+rng.Uint64N(1<<40), netReset, 0, nil)
	case "hello":
		return f.act(ctx, actHello, rng.Uint64(), saying(f.mine, nowhere))
	case "slow names":
		return f.act(ctx, actHello, rng.Uint64(), saying(f.mine, f.names[rng.IntN(len(f.names))]))
	case "codec":
		return f.act(ctx, actData, f.theirs.Load(), envelope(echoActor, nowhere, "no such codec", "nothing", nil))
	case "messages":
		return f.act(ctx, actData, f.theirs.Load(), envelope(sinkActor, f.mine, "", touch, nil))
	case "slow actor":
		return f.act(ctx, actData, f.theirs.Load(), envelope(slowActor, f.mine, "", touch, nil))
	default:
		return f.act(ctx, actData, f.theirs.Load(), envelope("efactor-spawner", f.mine, "efactor", "spawn", appendText(appendText(nil, "none"), "")))
	}
}

var touch = string(new(actor.Touch).ProtoReflect().Descriptor().FullName())

// silentNames are places that take connections and say nothing.
func silentNames(ctx context.Context, n int) (names []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		names = append(names, l.Addr().String())
	}
	return names, nil
}
