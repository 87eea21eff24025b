package ctrl

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is a context for a test that must not hang.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// pair returns a Conn and the bare other end of its connection.
func pair(t testing.TB, server bool) (*Conn, net.Conn) {
	a, b := net.Pipe()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return NewConn(a, server), b
}

// conns returns both sides of a control connection.
func conns(t testing.TB) (server, client *Conn) {
	a, b := net.Pipe()
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return NewConn(a, true), NewConn(b, false)
}

// line is a message of one side of a recorded conversation.
type line struct {
	server bool
	text   string
}

// converse plays one side of a conversation: it sends that side's lines and expects
// the others, byte for byte.
func converse(t testing.TB, c net.Conn, server bool, lines []line) {
	_ = c.SetDeadline(mustDeadline(within(t)))
	for i, l := range lines {
		if l.server == server {
			_, err := c.Write([]byte(l.text))
			require.NoError(t, err, "line %d", i)
			continue
		}
		b := make([]byte, len(l.text))
		for n := 0; n < len(b); {
			m, err := c.Read(b[n:])
			require.NoError(t, err, "line %d: %q so far", i, b[:n])
			n += m
		}
		require.Equal(t, l.text, string(b), "line %d", i)
	}
}

func mustDeadline(ctx context.Context) time.Time {
	d, _ := ctx.Deadline()
	return d
}
