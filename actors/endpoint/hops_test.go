package endpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/script"
)

// TestHops counts the messages between actors of an eager send and of an eager
// receive, as docs/architecture.md lists them: three each, and those that need not wait
// have none but the acknowledgement of a device that keeps the packet.
func TestHops(t *testing.T) {
	r, a := start(t, script.Config{})
	r.Auto = true
	warm := r.Send(a, 10, 0, 0, 0)
	r.Recv(nil, 10, 0, 0, 0)
	inject(t, r, a, "EAGER_MSGRTM", "msg_id=0", "len=1")
	r.Run()
	require.Equal(t, 1, warm.Ends)

	before := r.Shard.Delivered()
	sent := r.Send(a, 10, 0, 0, 0)
	r.Run()
	require.Equal(t, 1, sent.Ends)
	require.EqualValues(t, 1, r.Shard.Delivered()-before, "an eager send")

	before = r.Shard.Delivered()
	got := r.Recv(nil, 10, 0, 0, 0)
	inject(t, r, a, "EAGER_MSGRTM", "msg_id=1", "len=1")
	r.Run()
	require.Equal(t, 1, got.Ends)
	require.EqualValues(t, 0, r.Shard.Delivered()-before, "an eager receive")

	before = r.Shard.Delivered()
	inject(t, r, a, "EAGER_MSGRTM", "msg_id=2", "len=1")
	r.Run()
	got = r.Recv(nil, 10, 0, 0, 0)
	r.Run()
	require.Equal(t, 1, got.Ends)
	require.EqualValues(t, 4, r.Shard.Delivered()-before, "a message that came before its receive")
}
