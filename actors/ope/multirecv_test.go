package ope

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// manySink records the outcomes of a buffer for many messages.
type manySink struct {
	places int
	ns     []int
	errs   []error
}

func (s *manySink) Done(_ *Request, r *Result) {
	s.ns, s.errs = append(s.ns, r.N), append(s.errs, r.Err)
}

func (s *manySink) Room() bool {
	s.places--
	return s.places >= 0
}

// beginMulti posts a buffer of n bytes that takes messages until less than least bytes are left.
func beginMulti(t *testing.T, n, least int, flags Flags) (*MultiRecv, *manySink) {
	p, s := newPools(t), &manySink{places: 2}
	o := p.Entries.Get(&Request{Kind: KindRecv, Flags: Multi | flags, Buf: make([]byte, n), Data: uint64(least), Sink: s}, 0)
	o.MultiRecv(p, s)
	return o.Multi, s
}

// TestMultiPlaces: where messages go in a buffer, and when it is full.
func TestMultiPlaces(t *testing.T) {
	type message struct {
		n     uint64
		at    uint64 // where it goes
		room  int    // there
		full  bool
		later bool // it does not fit
	}
	for _, c := range []struct {
		name     string
		n, least int
		messages []message
	}{
		{"one that fills it", 64, 8, []message{{n: 64, room: 64, full: true}}},
		{"one too long for all of it", 64, 8, []message{{n: 100, room: 64, full: true}}},
		{"offsets are aligned", 64, 8, []message{{n: 3, room: 3}, {n: 8, at: 8, room: 8}, {n: 9, at: 16, room: 9}, {n: 1, at: 32, room: 1}}},
		{"empty messages", 64, 8, []message{{}, {}, {n: 5, room: 5}, {at: 8}}},
		{"as much as the least is left", 64, 24, []message{{n: 40, room: 40}, {n: 24, at: 40, room: 24, full: true}}},
		{"less than the least is left", 64, 24, []message{{n: 41, room: 41, full: true}}},
		{"one that does not fit the rest", 64, 8, []message{{n: 40, room: 40}, {n: 25, later: true}, {n: 24, at: 40, room: 24, full: true}}},
		{"the alignment is beyond the end", 63, 0, []message{{n: 62, room: 62, full: true}, {later: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := beginMulti(t, c.n, c.least, 0)
			for i, x := range c.messages {
				require.Equal(t, !x.later, m.Fits(x.n), "message %d", i)
				if x.later {
					continue
				}
				part, full := m.Place(x.n)
				require.Equal(t, x.at, part.Req.Addr, "message %d", i)
				require.Len(t, part.Req.Buf, x.room, "message %d", i)
				require.Equal(t, x.room, cap(part.Req.Buf), "it cannot grow into the next")
				require.Equal(t, x.full, full, "message %d", i)
				require.Equal(t, Part, part.Req.Flags)
			}
		})
	}
}

// TestMultiEnds: the buffer is given back once, when it takes no more messages and all in it have
// ended.
func TestMultiEnds(t *testing.T) {
	failed := errors.New("the endpoint was closed")
	for _, c := range []struct {
		name string
		end  func(m *MultiRecv, a, b *Entry)
		want []int // outcomes: of messages, then how much of the buffer was used, up to the alignment
		err  error
	}{
		{"closed last", func(m *MultiRecv, a, b *Entry) {
			m.Done(&a.Req, &Result{N: 10})
			m.Done(&b.Req, &Result{N: 4})
			m.Close(nil)
		}, []int{10, 4, 24}, nil},
		{"closed first", func(m *MultiRecv, a, b *Entry) {
			m.Close(nil)
			m.Done(&b.Req, &Result{N: 4})
			m.Done(&a.Req, &Result{N: 10})
		}, []int{4, 10, 24}, nil},
		{"closed twice, with an error", func(m *MultiRecv, a, b *Entry) {
			m.Done(&a.Req, &Result{N: 10})
			m.Close(failed)
			m.Close(nil)
			m.Done(&b.Req, &Result{N: 4})
		}, []int{10, 4, 24}, failed},
		{"a message without an outcome", func(m *MultiRecv, a, b *Entry) {
			m.Done(&a.Req, &Result{N: 10})
			m.Close(nil)
			m.Forget(b)
		}, []int{10, 24}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, s := beginMulti(t, 64, 8, Traced)
			p := m.pools
			a, _ := m.Place(10)
			b, _ := m.Place(4)
			c.end(m, a, b)
			require.Equal(t, c.want, s.ns)
			require.Equal(t, c.err, s.errs[len(s.errs)-1])
			if c.err != nil {
				require.EqualValues(t, 1, p.Tally.Failed[KindRecv])
			} else {
				require.Zero(t, p.Tally.Failed, "its messages are counted, not the buffer")
			}
			require.Same(t, m, p.multis, "it is free")
		})
	}
}

// TestMultiRoom: a message takes a place for its outcome, unless it has none.
func TestMultiRoom(t *testing.T) {
	m, _ := beginMulti(t, 64, 8, 0)
	require.True(t, m.Room())
	require.True(t, m.Room())
	require.False(t, m.Room())
	quiet, s := beginMulti(t, 64, 8, QuietParts)
	for range 3 {
		require.True(t, quiet.Room())
	}
	require.Equal(t, 2, s.places)
	part, _ := quiet.Place(1)
	require.Equal(t, Part|Quiet, part.Req.Flags)
}
