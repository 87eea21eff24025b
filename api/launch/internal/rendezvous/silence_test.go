package rendezvous

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// strangeHub accepts a connection, says WELCOME, and continues with then.
func strangeHub(t *testing.T, p *party, then func(conn net.Conn)) {
	l := p.ranks[0].cfg.Listener
	var hub sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); hub.Wait() })
	hub.Go(func() {
		conn, err := l.Accept()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		_, err = readHello(conn)
		assert.NoError(t, err)
		_, err = conn.Write(newFrame(typeWelcome, nil))
		assert.NoError(t, err)
		then(conn)
	})
}

// TestSilentHub: rank 0 was stopped, or is behind a pulled cable. The error comes in time,
// and names the silent side.
func TestSilentHub(t *testing.T) {
	testenv.Long(t, "a deadline of seconds has to pass")
	t.Parallel()
	for name, size := range map[string]int{"small": 10, "more than a socket takes": 15 * board.MaxValue} {
		t.Run(name, func(t *testing.T) {
			if size < board.MaxValue {
				testenv.Long(t, "other rows do")
			}
			p := newParty(t, 2, "")
			end := make(chan struct{})
			defer close(end)
			strangeHub(t, p, func(net.Conn) { <-end })
			p.ranks[1].run(func(r *rank) error {
				ctx, cancel := context.WithTimeout(r.ctx, 3*time.Second)
				defer cancel()
				for i := range size / board.MaxValue {
					assert.NoError(t, r.b.Put(ctx, string(rune('a'+i)), make([]byte, board.MaxValue)))
				}
				err := r.b.Fence(ctx)
				until, _ := ctx.Deadline()
				assert.WithinRange(t, clock.Wall(), until.Add(-time.Minute), until.Add(testenv.Hang))
				return err
			})
			p.ranks[1].says(t, 1, board.Deadline, 0, "rank 0 at "+p.ranks[1].cfg.Addr)
			require.ErrorIs(t, p.ranks[1].err, context.DeadlineExceeded)
		})
	}
}

// TestLyingHub: a rank that the job does not have becomes Nobody.
func TestLyingHub(t *testing.T) {
	for _, of := range []int{2, 1 << 30} {
		p := newParty(t, 2, "")
		strangeHub(t, p, func(conn net.Conn) {
			_, err := conn.Write(abortFrame(board.Failed(of, board.Gone, "that one")))
			assert.NoError(t, err)
			_, _, _ = readFrame(conn, maxFence)
		})
		p.ranks[1].run(fence)
		p.ranks[1].says(t, 1, board.Gone, board.Nobody, "that one")
	}
}

// TestLyingMember: a rank speaks for itself only.
func TestLyingMember(t *testing.T) {
	for _, c := range []struct {
		hi   hello
		last []byte
		of   int
	}{
		{hello{version, 1, 2, "test"}, abortFrame(board.Failed(0, board.GivenUp, "I say so")), 1},
		{hello{version, 1, 2, "test"}, abortFrame(board.Failed(77, board.GivenUp, "I say so")), 1},
	} {
		p := newParty(t, 2, "")
		p.ranks[0].cfg.linger = 400 * time.Millisecond // it takes no leave
		var hub sync.WaitGroup
		hub.Go(func() { p.ranks[0].run(fence) })
		conn, err := net.Dial("tcp", p.ranks[0].cfg.Addr)
		require.NoError(t, err)
		_, err = conn.Write(append(c.hi.frame(), c.last...))
		require.NoError(t, err)
		hub.Wait()
		_ = conn.Close()
		var f *board.Failure
		require.ErrorAs(t, p.ranks[0].err, &f)
		assert.Equal(t, c.of, f.Rank, "%v", f)
	}
}
