package remote_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/remote"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// The frames as the other side sees them; see docs/remote.md.
const (
	hello = iota + 1
	welcome
	data
	ping
	reset
	bye
	credit

	frames = 0xAC<<56 | 1
)

func tagOf(kind byte) uint64 {
	switch kind {
	case hello:
		return 0xAC<<56 | 3
	case credit:
		return 0xAC<<56 | 5
	}
	return frames
}

// stranger is a side that keeps to no protocol, in a session with a process.
type stranger struct {
	t    *testing.T
	ep   *efa.Endpoint
	p    *process
	to   efa.Addr
	mine uint64 // the session there
}

const strangers = 77 // the session here

func text(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }

func saying(address, name string) []byte { return text(text([]byte{3}, address), name) }

func (s *stranger) send(kind byte, session uint64, body []byte) {
	b := append(binary.LittleEndian.AppendUint64([]byte{kind}, session), body...)
	require.NoError(s.t, s.ep.SendTag(soon(s.t), s.to, tagOf(kind), b))
}

// next is the next frame of a kind.
func (s *stranger) next(kind byte) (session uint64, body []byte) {
	for {
		d, err := s.ep.NextTag(soon(s.t), efa.Match{Tag: frames})
		require.NoError(s.t, err)
		b := append([]byte(nil), d.Body...)
		d.Release()
		if b[0] == kind {
			return binary.LittleEndian.Uint64(b[1:9]), b[9:]
		}
	}
}

func newStranger(t *testing.T) *stranger {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	return strangerOf(t, f, start(t, f, remote.Config{}))
}

// strangerOf is one in a session with a process.
func strangerOf(t *testing.T, f *sim.Fabric, p *process) *stranger {
	s := unknown(t, f, p)
	s.greet()
	return s
}

// greet begins a session.
func (s *stranger) greet() {
	s.send(hello, strangers, saying(s.name(), s.name()))
	session, body := s.next(welcome)
	require.EqualValues(s.t, strangers, session)
	s.mine = binary.LittleEndian.Uint64(body[1:])
}

// unknown is one without a session.
func unknown(t *testing.T, f *sim.Fabric, p *process) *stranger {
	at, err := efa.ParseAddress(p.Address())
	require.NoError(t, err)
	s := unknownTo(t, f, at)
	s.p = p
	return s
}

func unknownTo(t *testing.T, f *sim.Fabric, at efa.Address) *stranger {
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	ep, err := efa.OpenEndpoint(soon(t), efa.Setup{Fabric: efa.Config{Device: d}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, ep.Close())
		require.NoError(t, d.Close())
	})
	s := &stranger{t: t, ep: ep}
	s.to, err = ep.AddressVector().Insert(at)
	require.NoError(t, err)
	return s
}

func (s *stranger) name() string { return s.ep.Address().String() }

// envelope is one with a protobuf message for the actor "inbox".
func envelope(bits byte, m proto.Message) []byte {
	b := append(text([]byte{bits}, "inbox"), 0)
	b = text(text(b, ""), string(m.ProtoReflect().Descriptor().FullName()))
	body, _ := proto.Marshal(m)
	return text(b, string(body))
}

// TestHostile: frames that break the protocol are counted and do nothing; the process goes on.
func TestHostile(t *testing.T) {
	s := newStranger(t)
	got := s.p.inbox(t)
	next[*actor.Started](t, got)
	other := actor.NewPID("shm://elsewhere", "x")
	const system = 2
	for name, send := range map[string]func(){
		"empty":            func() { require.NoError(t, s.ep.SendTag(soon(t), s.to, frames, nil)) },
		"kind":             func() { s.send(99, s.mine, nil) },
		"hello, no name":   func() { s.send(hello, 5, saying(s.name(), "")) },
		"hello, version":   func() { s.send(hello, 5, append([]byte{9}, saying(s.name(), s.name())[1:]...)) },
		"hello, of other":  func() { s.send(hello, 5, saying(s.p.Address(), s.name())) },
		"hello, of itself": func() { s.send(hello, 5, saying(s.name(), s.p.Address())) },
		"hello, session 0": func() { s.send(hello, 0, saying(s.name(), s.name())) },
		"welcome":          func() { s.send(welcome, s.mine, []byte("short")) },
		"bits":             func() { s.send(data, s.mine, []byte{0x80}) },
		"same as none":     func() { s.send(data, s.mine, []byte{4}) },
		"cut off":          func() { s.send(data, s.mine, envelope(0, &actor.Touch{})[:9]) },
		"long string":      func() { s.send(data, s.mine, []byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f}) },
		"not a system one": func() { s.send(data, s.mine, envelope(system, &actor.Touch{})) },
		"watch for nobody": func() { s.send(data, s.mine, envelope(system, &actor.Watch{})) },
		"end of other":     func() { s.send(data, s.mine, envelope(system, &actor.Terminated{Who: other})) },
		"credit":           func() { s.send(credit, s.mine, []byte("short")) },
		"end of who is not watched": func() {
			s.send(data, s.mine, envelope(system, &actor.Terminated{Who: actor.NewPID(s.name(), "x")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.p.Stats().Malformed
			send()
			s.send(data, s.mine, envelope(0, &actor.DeadLetterResponse{}))
			next[*actor.DeadLetterResponse](t, got)
			require.Eventually(t, func() bool { return s.p.Stats().Malformed == before+1 }, testenv.Hang, time.Millisecond) // HELLO has its own way
			require.Empty(t, got)
		})
	}
	s.send(data, s.mine, append(envelope(0, &actor.Touch{})[:0:0], func() []byte {
		b := append(text([]byte{0}, "inbox"), 0)
		return text(text(text(b, ""), "no.such.Type"), "")
	}()...))
	s.send(data, s.mine, envelope(0, &actor.DeadLetterResponse{}))
	next[*actor.DeadLetterResponse](t, got)
	require.EqualValues(t, 1, s.p.Stats().Undecodable)
}

// TestSessions: a frame of another session is answered by RESET; a HELLO with another number begins
// anew, and ends what was.
func TestSessions(t *testing.T) {
	for name, begin := range map[string]func(*sim.Fabric) *process{
		"Start":  func(f *sim.Fabric) *process { return start(t, f, remote.Config{}) },
		"Listen": func(f *sim.Fabric) *process { return listening(t, f, "", remote.Config{}) },
	} {
		t.Run(name, func(t *testing.T) {
			f, err := sim.New(sim.Config{})
			require.NoError(t, err)
			sessions(t, strangerOf(t, f, begin(f)))
		})
	}
}

func sessions(t *testing.T, s *stranger) {
	got := s.p.inbox(t)
	for _, kind := range []byte{data, ping} {
		s.send(kind, s.mine+1, nil)
		session, _ := s.next(reset)
		require.Equal(t, s.mine+1, session)
	}
	s.send(reset, strangers+1, nil) // of no session
	s.send(data, s.mine+1, nil)     // its answer says that RESET was handled: HELLO has a tag of its own, and may overtake it
	s.next(reset)
	s.send(hello, strangers, saying(s.name(), s.name()))
	_, body := s.next(welcome)
	require.Equal(t, s.mine, binary.LittleEndian.Uint64(body[1:]), "the same session")
	lost := events[*remote.Lost](t, s.p)
	s.send(hello, strangers+1, saying(s.name(), s.name()))
	_, body = s.next(welcome)
	require.NotEqual(t, s.mine, binary.LittleEndian.Uint64(body[1:]))
	require.ErrorIs(t, take(t, lost).Err, remote.ErrUnreachable)
	s.send(data, s.mine, envelope(0, &actor.Touch{}))
	session, _ := s.next(reset)
	require.Equal(t, s.mine, session)
	s.mine = binary.LittleEndian.Uint64(body[1:])
	s.send(data, s.mine, envelope(0, &actor.DeadLetterResponse{}))
	next[*actor.DeadLetterResponse](t, got)
	s.send(reset, strangers+1, nil)
	require.ErrorIs(t, take(t, lost).Err, remote.ErrUnreachable)
}

// TestInventedNames: HELLO with names that lead elsewhere, or to nobody, takes no address, and one place
// a peer to be looked up; a process that says the truth meanwhile is answered.
func TestInventedNames(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	var honest efa.Address
	asked := make(chan string, 1<<10)
	p := listening(t, f, "", remote.Config{MaxAddresses: 2, Resolve: func(ctx context.Context, name string) (efa.Address, error) {
		if name == "honest" {
			return honest, nil
		}
		asked <- name
		<-ctx.Done()
		return efa.Address{}, ctx.Err()
	}})
	var foes []*stranger
	for range 70 { // more than there are places
		foes = append(foes, unknown(t, f, p))
	}
	for i, s := range foes {
		for j := range 5 {
			s.send(hello, strangers, saying(s.name(), fmt.Sprintf("invented:%d-%d", i, j)))
		}
		s.send(ping, 1, nil)
		s.next(reset) // all have been looked at
		take(t, asked)
		if i == 0 {
			require.Empty(t, asked, "one at a time")
		}
	}
	s := unknown(t, f, p)
	honest = s.ep.Address()
	s.send(hello, strangers, saying(s.name(), "honest"))
	s.next(welcome)
	names, links, _ := p.Places()
	require.Equal(t, 1, names)
	require.Equal(t, 1, links)
}

// TestWordOfAPeer: nobody is asked for because of what a peer says: the answer to a message that cannot be
// decoded, or to an actor that does not exist, goes to its sender if there is a session with that.
func TestWordOfAPeer(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	asked := make(chan string, 10)
	p := start(t, f, remote.Config{Resolve: func(_ context.Context, name string) (efa.Address, error) {
		asked <- name
		return efa.Address{}, errors.New("nobody")
	}})
	got := p.inbox(t)
	s := strangerOf(t, f, p)
	const hasSender, foreign = 1, 64
	for _, target := range []string{"inbox", "nobody"} {
		b := append(text([]byte{hasSender | foreign}, target), 0)
		b = append(text(text(b, "elsewhere:1"), "x"), 0)
		b = text(text(text(b, "no codec"), "no type"), "")
		if target == "nobody" {
			m := &actor.Touch{}
			b = append(text([]byte{hasSender | foreign}, target), 0)
			b = append(text(text(b, "elsewhere:2"), "x"), 0)
			b = text(text(text(b, ""), string(m.ProtoReflect().Descriptor().FullName())), "")
		}
		s.send(data, s.mine, b)
	}
	s.send(data, s.mine, envelope(0, &actor.DeadLetterResponse{}))
	next[*actor.DeadLetterResponse](t, got)
	require.Empty(t, asked)
	names, _, _ := p.Places()
	require.Equal(t, 1, names)
}

// TestWatcherIsOfTheSender: who watches is called as its process is called here, whatever it says.
func TestWatcherIsOfTheSender(t *testing.T) {
	s := newStranger(t)
	s.p.spawn(t, "inbox", echo)
	const system = 2
	s.send(data, s.mine, envelope(system, &actor.Watch{Watcher: actor.NewPID("shm://elsewhere", "x")}))
	s.send(data, s.mine, envelope(system, &actor.Stop{}))
	_, body := s.next(data)
	require.Contains(t, string(body), "actor.Terminated")
}

// TestLongStands: a peer that begins a long frame, and does not go on, holds up nobody else.
func TestLongStands(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	a, p := start(t, f, remote.Config{}), start(t, f, remote.Config{})
	p.spawn(t, "echo", echo)
	s := strangerOf(t, f, p)
	raw, _ := s.ep.Address().Raw("sim")
	_, err = f.AddRule(sim.Rule{
		Fault: sim.FaultRNR, From: sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()},
		Types: []byte{byte(wire.TypeCTSData), byte(wire.TypeMediumTagRTM)},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(soon(t))
	sent := make(chan error)
	go func() { sent <- s.ep.SendTag(ctx, s.to, frames, make([]byte, 1<<20)) }()
	require.Eventually(t, func() bool { return f.Count(sim.FaultRNR) > 0 }, testenv.Hang, time.Millisecond)
	_, err = a.Root.RequestFuture(p.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	require.NoError(t, p.Close(soon(t)))
	cancel()
	<-sent
}

// TestHalfLongEnds: what a peer has begun to send, and does not go on with, is held no longer than its session, nor
// than the peer is there.
func TestHalfLongEnds(t *testing.T) {
	for name, end := range map[string]func(*stranger){
		"begun anew": func(s *stranger) {
			s.send(hello, strangers+1, saying(s.name(), s.name()))
			s.next(welcome)
		},
		"gone": func(s *stranger) { require.NoError(s.t, s.ep.Close()) },
	} {
		t.Run(name, func(t *testing.T) { halfLong(t, end) })
	}
}

func halfLong(t *testing.T, end func(*stranger)) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	p := start(t, f, remote.Config{})
	s := strangerOf(t, f, p)
	raw, _ := s.ep.Address().Raw("sim")
	_, err = f.AddRule(sim.Rule{
		Fault: sim.FaultRNR, From: sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()},
		Types: []byte{byte(wire.TypeCTSData), byte(wire.TypeMediumTagRTM)},
	})
	require.NoError(t, err)
	_, err = s.ep.Start(&efa.SendReq{To: s.to, Tagged: true, Tag: frames, Buf: make([]byte, 1<<20)})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.Count(sim.FaultRNR) > 0 }, testenv.Hang, time.Millisecond)
	stacks := make([]byte, 1<<20)
	receiving := func() bool {
		return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("remote.(*Remote).arrived("))
	}
	require.True(t, receiving())
	end(s)
	require.Eventually(t, func() bool { return !receiving() }, testenv.Hang, time.Millisecond)
}

// TestBehindOthers: HELLO and CREDIT are received while nothing else is.
func TestBehindOthers(t *testing.T) {
	f, err := sim.New(sim.Config{InOrder: true})
	require.NoError(t, err)
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	ep, err := efa.OpenEndpoint(soon(t), efa.Setup{Fabric: efa.Config{Device: d}, Endpoint: efa.EndpointConfig{NextMemory: 1}})
	require.NoError(t, err)
	system := newSystem()
	p := &process{ActorSystem: system, ep: ep}
	s := unknownTo(t, f, ep.Address())
	require.NoError(t, s.ep.Send(soon(t), s.to, []byte("held")))
	held, err := ep.Next(soon(t)) // of all the memory that there is
	require.NoError(t, err)
	cfg := remote.Config{Codecs: codecs(), Patience: long}
	p.Remote, err = cfg.Start(system, ep)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Remote.Close(soon(t)))
		require.NoError(t, ep.Close())
		require.NoError(t, d.Close())
		system.Shutdown()
	})
	s.send(data, 1, nil)
	s.greet()
	const messages = 12 // of 1 MiB, so more than window and queue
	go func() {
		for i := range messages {
			p.Root.Send(actor.NewPID(s.name(), "x"), &word{strings.Repeat("x", 1<<20), i})
		}
	}()
	for i, handled := 0, uint64(0); i < messages; i++ {
		_, body := s.next(data)
		handled += uint64(len(body) + remote.FrameCost)
		s.send(credit, s.mine, binary.LittleEndian.AppendUint64(nil, handled))
	}
	require.Zero(t, p.Stats().Malformed)
	held.Release()
	_, _ = s.next(reset)
}

// TestFlood: frames that cost more to answer than to send are answered at a rate, each peer's at its own.
func TestFlood(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	p := start(t, f, remote.Config{})
	s := strangerOf(t, f, p)
	connected := events[*remote.Connected](t, p)
	const frames = 1000
	began := clock.System.Now()
	for i := range uint64(frames) {
		s.send(ping, s.mine+1+i, nil)
		s.send(hello, strangers+1+i, saying(s.name(), s.name()))
	}
	a := start(t, f, remote.Config{})
	p.spawn(t, "echo", echo)
	_, err = a.Root.RequestFuture(p.at("echo"), &word{}, long).Result()
	require.NoError(t, err)
	sessions := 0
	for e := take(t, connected); e.Address != a.Address(); e = take(t, connected) {
		sessions++
	}
	most := 16 + int(clock.System.Now().Sub(began)/(10*time.Millisecond))
	require.LessOrEqual(t, sessions, min(most, frames))
}
