package remote_test

import (
	"encoding/binary"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/remote"
)

// The frames as the other side sees them; see docs/remote.md.
const (
	hello = iota + 1
	welcome
	data
	ping
	reset
	bye

	frames = 0xAC<<56 | 1
)

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

func saying(address, name string) []byte { return text(text([]byte{1}, address), name) }

func (s *stranger) send(kind byte, session uint64, body []byte) {
	b := append(binary.LittleEndian.AppendUint64([]byte{kind}, session), body...)
	require.NoError(s.t, s.ep.SendTag(soon(s.t), s.to, frames, b))
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
	p := start(t, f, remote.Config{})
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	ep, err := efa.OpenEndpoint(soon(t), efa.Setup{Fabric: efa.Config{Device: d}})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, ep.Close())
		require.NoError(t, d.Close())
	})
	s := &stranger{t: t, ep: ep, p: p}
	s.to, err = ep.AddressVector().Insert(p.ep.Address())
	require.NoError(t, err)
	s.send(hello, strangers, saying(s.name(), s.name()))
	session, body := s.next(welcome)
	require.EqualValues(t, strangers, session)
	s.mine = binary.LittleEndian.Uint64(body[1:])
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
		"watch for other":  func() { s.send(data, s.mine, envelope(system, &actor.Watch{Watcher: other})) },
		"watch for nobody": func() { s.send(data, s.mine, envelope(system, &actor.Watch{})) },
		"end of other":     func() { s.send(data, s.mine, envelope(system, &actor.Terminated{Who: other})) },
		"end of who is not watched": func() {
			s.send(data, s.mine, envelope(system, &actor.Terminated{Who: actor.NewPID(s.name(), "x")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.p.Stats().Malformed
			send()
			s.send(data, s.mine, envelope(0, &actor.DeadLetterResponse{}))
			next[*actor.DeadLetterResponse](t, got)
			require.Equal(t, before+1, s.p.Stats().Malformed)
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
	s := newStranger(t)
	got := s.p.inbox(t)
	for _, kind := range []byte{data, ping} {
		s.send(kind, s.mine+1, nil)
		session, _ := s.next(reset)
		require.Equal(t, s.mine+1, session)
	}
	s.send(reset, strangers+1, nil) // of no session
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
