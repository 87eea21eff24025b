package endpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/script"
)

// TestHops counts the messages that go through the ring: none for operations that wait
// for nothing but an acknowledgement. Where every message takes the ring there are three
// for an eager send and three for an eager receive, as docs/architecture.md lists them.
func TestHops(t *testing.T) {
	for _, c := range []struct {
		name                      string
		queue                     bool
		send, receive, unexpected uint64
	}{
		{"called", false, 0, 0, 0},
		{"queued", true, 3, 3, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, a := start(t, script.Config{Queue: c.queue})
			r.Auto = true
			warm := r.Send(a, 10, 0, 0, 0)
			r.Recv(nil, 10, 0, 0, 0)
			inject(t, r, a, "EAGER_MSGRTM", "msg_id=0", "len=1")
			r.Run()
			require.Equal(t, 1, warm.Ends)

			hops := func(f func() *script.Op) uint64 {
				before := r.Shard.Delivered()
				op := f()
				r.Run()
				require.Equal(t, 1, op.Ends)
				return r.Shard.Delivered() - before
			}
			require.Equal(t, c.send, hops(func() *script.Op { return r.Send(a, 10, 0, 0, 0) }), "an eager send")
			require.Equal(t, c.receive, hops(func() *script.Op {
				got := r.Recv(nil, 10, 0, 0, 0)
				inject(t, r, a, "EAGER_MSGRTM", "msg_id=1", "len=1")
				return got
			}), "an eager receive")
			require.Equal(t, c.unexpected, hops(func() *script.Op {
				inject(t, r, a, "EAGER_MSGRTM", "msg_id=2", "len=1")
				r.Run()
				return r.Recv(nil, 10, 0, 0, 0)
			}), "a message that came before its receive")
		})
	}
}
