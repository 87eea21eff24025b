package ctrl

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func exchange(ctx context.Context, c *Conn) error {
	_, err := c.Exchange(ctx, Name{FormatEFA, make([]byte, 32)})
	return err
}

func count(ctx context.Context, c *Conn) error {
	_, err := c.Count(ctx, 1)
	return err
}

var steps = []struct {
	name string
	run  func(context.Context, *Conn) error
}{{"exchange of names", exchange}, {"synchronization", func(ctx context.Context, c *Conn) error { return c.Sync(ctx) }}, {"exchange of counts", count}}

// drain reads and drops c's input, so that the other side's writes do not block.
func drain(t *testing.T, c net.Conn) {
	done := make(chan struct{})
	go func() { defer close(done); _, _ = io.Copy(io.Discard, c) }()
	t.Cleanup(func() { _ = c.Close(); <-done })
}

func TestBadInput(t *testing.T) {
	name := func(size, rest string) string { return size + "\x0c\x00\x00\x00" + rest }
	for _, c := range []struct {
		step   int
		server bool
		input  string
		says   string
	}{
		{0, true, name("\x00\x00\x00\x00", "rest"), "a name of 0 bytes, want 1 to 1024"},
		{0, false, name("\x00\x00\x04\x01", "rest"), "a name of 1025 bytes"},
		{0, false, name("\xff\xff\xff\xff", "rest"), "a name of 4294967295 bytes"},
		{0, true, "GET / HTTP/1.1\r\n\r\n", "a name of 1195725856 bytes"},
		{1, true, "x\x00", `it sent "x\x00", want "q\x00"`},
		{1, true, "a\x00", `it sent "a\x00"`},
		{1, true, "qq", `it sent "qq"`},
		{1, false, "q\x00", `it sent "q\x00", want "a\x00"`},
		{2, false, "cnt no\x00", `it sent "cnt no\x00", want "cnt ok\x00"`},
		{2, true, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "it sent the count"},
		{2, true, "-1\x00\x00\x00\x00\x00\x00\x00\x00", `it sent the count "-1\x00`},
		{2, true, "+1\x00\x00\x00\x00\x00\x00\x00\x00", "it sent the count"},
		{2, true, " 1\x00\x00\x00\x00\x00\x00\x00\x00", "it sent the count"},
		{2, true, "1\x00\x00\x00\x00\x00\x00\x00\x001", "it sent the count"},
		{2, true, "1x\x00\x00\x00\x00\x00\x00\x00\x00", "it sent the count"},
	} {
		conn, other := pair(t, c.server)
		drain(t, other)
		go func() { _, _ = other.Write([]byte(c.input)) }() // ends when other is closed
		err := steps[c.step].run(within(t), conn)
		require.ErrorIs(t, err, ErrProtocol, "%q", c.input)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, steps[c.step].name)
	}
}

// TestPartnerGone closes the connection after each number of bytes of a good
// answer.
func TestPartnerGone(t *testing.T) {
	good := []map[bool]string{
		{true: "\x00\x00\x00\x04\x09\x00\x00\x00abcd", false: "\x00\x00\x00\x04\x09\x00\x00\x00abcd"},
		{true: "q\x00", false: "a\x00"},
		{true: "7\x00\x00\x00\x00\x00\x00\x00\x00\x00", false: "cnt ok\x00"},
	}
	for i, step := range steps {
		for server, answer := range good[i] {
			for n := range len(answer) {
				conn, other := pair(t, server)
				go func() {
					if !server && i > 0 { // the client speaks first
						_, _ = other.Read(make([]byte, 64))
					}
					if server && i == 0 { // and the server here
						_, _ = other.Read(make([]byte, 64))
					}
					_, _ = other.Write([]byte(answer[:n]))
					_ = other.Close()
				}()
				err := step.run(within(t), conn)
				require.ErrorIs(t, err, ErrGone, "%s after %d bytes", step.name, n)
				require.ErrorContains(t, err, step.name)
			}
		}
	}
}

func TestSilentPartner(t *testing.T) {
	for _, step := range steps {
		for _, server := range []bool{true, false} {
			conn, other := pair(t, server)
			drain(t, other)
			conn.Patience = 5 * time.Millisecond
			err := step.run(within(t), conn)
			require.ErrorIs(t, err, ErrSilent)
			require.ErrorContains(t, err, step.name+": the partner does not answer for 5ms")
		}
	}
}

func TestCanceledStep(t *testing.T) {
	why := errors.New("had enough")
	for _, step := range steps {
		conn, other := pair(t, true)
		drain(t, other)
		ctx, cancel := context.WithCancelCause(within(t))
		go cancel(why)
		require.ErrorIs(t, step.run(ctx, conn), why)
	}
}

// reader is a connection on which the partner has said all that it will.
type reader struct {
	net.Conn
	r io.Reader
}

func (c reader) Read(b []byte) (int, error)      { return c.r.Read(b) }
func (c reader) Write(b []byte) (int, error)     { return len(b), nil }
func (c reader) SetDeadline(time.Time) error     { return nil }
func (c reader) SetReadDeadline(time.Time) error { return nil }

func FuzzPartner(f *testing.F) {
	for _, server := range []bool{true, false} {
		var all strings.Builder
		for _, l := range recorded {
			if l.server != server {
				all.WriteString(l.text)
			}
		}
		f.Add(server, []byte(all.String()))
	}
	f.Fuzz(func(t *testing.T, server bool, data []byte) {
		c := NewConn(reader{r: bytes.NewReader(data)}, server)
		n, err := c.Exchange(context.Background(), Name{FormatEFA, make([]byte, 32)})
		for err == nil {
			require.NotEmpty(t, n.Addr)
			require.LessOrEqual(t, len(n.Addr), maxName)
			_, _ = n.Raw()
			if err = c.Sync(context.Background()); err == nil {
				var k int
				k, err = c.Count(context.Background(), 1)
				require.GreaterOrEqual(t, k, 0)
			}
		}
		require.True(t, errors.Is(err, ErrGone) || errors.Is(err, ErrProtocol), err)
	})
}
