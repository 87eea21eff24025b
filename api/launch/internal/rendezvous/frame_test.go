package rendezvous

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
)

func TestFrames(t *testing.T) {
	hi := hello{version: version, rank: 3, size: 5, job: "job 1"}
	typ, rest, err := readFrame(iotest.OneByteReader(bytes.NewReader(hi.frame())), maxSmall)
	require.NoError(t, err)
	require.Equal(t, typeHello, typ)
	got, err := parseHello(rest)
	require.NoError(t, err)
	assert.Equal(t, hi, got)
	assert.Equal(t, "\x00\x00\x00\x1c\x01efactor-join\x00\x01\x00\x00\x00\x03\x00\x00\x00\x05job 1", string(hi.frame()), "for good")

	f := board.Failed(board.Nobody, board.Gone, "ü\n%d", 1)
	typ, rest, err = readFrame(bytes.NewReader(abortFrame(f)), maxSmall)
	require.NoError(t, err)
	require.Equal(t, typeAbort, typ)
	back, err := parseAbort(rest, 1<<16)
	require.NoError(t, err)
	assert.Equal(t, &board.Failure{Rank: board.Nobody, Kind: board.Gone, Text: "ü?1"}, back)
}

// TestCutFrames: nothing that is cut off passes for a whole.
func TestCutFrames(t *testing.T) {
	whole := numbered(typeFence, 7, appendEntry(appendEntry(nil, "a", []byte("xyz")), "b", nil))
	for n := range whole {
		_, _, err := readFrame(bytes.NewReader(whole[:n]), maxSmall)
		assert.Error(t, err, "%d bytes", n)
	}
	_, rest, err := readFrame(bytes.NewReader(whole), maxSmall)
	require.NoError(t, err)
	_, entries, err := parseNumbered(rest)
	require.NoError(t, err)
	none := func(string, []byte) error { return nil }
	require.NoError(t, eachEntry(entries, none))
	for n := 1; n < len(entries); n++ {
		if n != 1+1+4+3 { // the first entry
			assert.ErrorIs(t, eachEntry(entries[:n], none), errFrame, "%d bytes", n)
		}
	}
	_, _, err = readFrame(bytes.NewReader(whole), 10)
	assert.ErrorIs(t, err, errFrame, "too long")
}

// TestLongText: the text of an error is bounded.
func TestLongText(t *testing.T) {
	_, rest, err := readFrame(bytes.NewReader(abortFrame(board.Failed(1, board.Other, "%s", strings.Repeat("x", 5000)))), maxSmall)
	require.NoError(t, err)
	f, err := parseAbort(rest, 1<<16)
	require.NoError(t, err)
	assert.Len(t, f.Text, maxText)
}

func FuzzParse(f *testing.F) {
	f.Add(hello{version: version, rank: 3, size: 5, job: "j"}.frame())
	f.Add(abortFrame(board.Failed(1, board.Gone, "x")))
	f.Add(numbered(typeFence, 7, appendEntry(nil, "a", []byte("xyz"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, rest, err := readFrame(bytes.NewReader(b), maxFence)
		if err != nil {
			return
		}
		if hi, err := parseHello(rest); err == nil && hi.version == version {
			_, again, err := readFrame(bytes.NewReader(hi.frame()), maxSmall)
			require.NoError(t, err)
			require.Equal(t, rest, again)
		}
		if f, err := parseAbort(rest, 1<<16); err == nil {
			require.True(t, f.Kind.Valid())
			require.GreaterOrEqual(t, f.Rank, board.Nobody)
		}
		if _, entries, err := parseNumbered(rest); err == nil {
			var again []byte
			if eachEntry(entries, func(key string, value []byte) error { again = appendEntry(again, key, value); return nil }) == nil {
				require.Equal(t, len(entries), len(again))
			}
		}
	})
}

// FuzzHub: any input of a process to rank 0, after a proper HELLO or without. Rank 0 comes
// to an end with or without an error.
func FuzzHub(f *testing.F) {
	good := hello{version: version, rank: 1, size: 2, job: "test"}.frame()
	f.Add(good, newFrame(typeBye, nil))
	f.Add(good, numbered(typeFence, 0, appendEntry(nil, "a", []byte("xyz"))))
	f.Add(good, append(numbered(typeFence, 0, nil), numbered(typeFence, 0, nil)...))
	f.Add(good, numbered(typeLate, 0, nil))
	f.Add(good, abortFrame(board.Failed(1, board.Gone, "x")))
	f.Add(good, newFrame(99, nil))
	f.Fuzz(func(t *testing.T, hi, then []byte) {
		cfg := Config{Size: 2, Job: "test", Logger: slog.New(slog.DiscardHandler), linger: time.Millisecond}
		if err := cfg.check(); err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		ours, theirs := net.Pipe()
		s := newHub(&cfg).serve(l, theirs)
		_, _ = ours.Write(numbered(typeFence, 0, nil))
		conn := l.dial()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		go func() { _, _ = io.Copy(io.Discard, ours) }()
		_, _ = conn.Write(append(append([]byte(nil), hi...), then...))
		_ = conn.Close()
		_ = ours.Close()
		s.close()
	})
}

// FuzzLyingHub: any input of rank 0 to another rank.
func FuzzLyingHub(f *testing.F) {
	f.Add(newFrame(typeWelcome, nil), numbered(typeResult, 0, appendEntry(nil, "a", nil)))
	f.Add(newFrame(typeWelcome, nil), numbered(typeResult, 1, nil))
	f.Add(newFrame(typeRefused, []byte("x")), []byte{})
	f.Add(abortFrame(board.Failed(3, board.Mistake, "x")), []byte{})
	f.Fuzz(func(t *testing.T, first, then []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = theirs.Write(append(append([]byte(nil), first...), then...))
			_ = theirs.Close()
		}()
		cfg := Config{Rank: 1, Size: 2, Job: "test"}
		if introduce(ours, &cfg) != nil {
			_ = ours.Close()
			return
		}
		b := &Board{cfg: cfg, conn: ours, values: make(map[string][]byte), frames: make(chan frame, backlog)}
		b.reader.Go(b.read)
		_ = b.Put(t.Context(), "k", nil)
		_ = b.Fence(t.Context())
		_, _, _ = b.Get(t.Context(), "k")
		require.NoError(t, b.Close())
	})
}

// pipes is a listener of connections within the process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- named{theirs}
	return ours
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { close(p.closed); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// named is a connection that has an address, as real ones do.
type named struct{ net.Conn }

// RemoteAddr implements net.Conn.
func (named) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// TestNothingMoves: a member that reads nothing does not hold up the others.
func TestNothingMoves(t *testing.T) {
	m := newMember(1, "there", nil)
	for range backlog + 1 {
		m.send([]byte{1})
	}
	require.True(t, m.done)
	m.end(board.Failed(1, board.Other, "x")) // neither blocks nor closes twice
	require.Less(t, writeTime, time.Minute)
}
