package directtest

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// messages: every size up to the MTU, with data or not, in both directions.
func messages(t *testing.T, w *world) {
	a, b := w.pair()
	mtu := a.mtu()
	buf := make([]byte, mtu)
	for i, n := range []int{0, 1, 31, 32, 33, 64, 80, 81, 1000, 4096, mtu - 1, mtu} {
		clear(buf)
		data := uint64(0xfffffff0 + i)
		b.recv(buf, 1)
		_, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: pattern(n, i), Token: 2, HasData: i%2 == 0, Data: data})
		require.NoError(t, err)
		c := b.ok(efa.Received, 1)
		require.Equal(t, n, c.N)
		require.Equal(t, pattern(n, i), buf[:n])
		require.Equal(t, b.peer, c.From)
		raw, _ := a.ep.Address().Raw(a.scheme())
		require.Equal(t, raw, c.Raw())
		if require.Equal(t, i%2 == 0, c.HasData); c.HasData {
			require.Equal(t, data&math.MaxUint32, c.Data)
		}
		require.Equal(t, n, a.ok(efa.Sent, 2).N)
		a, b = b, a
	}
	b.recv(buf, 1) // pieces, and by a blocking call that injects
	require.NoError(t, a.ep.Send(a.ctx, a.peer, []byte("injected"), efa.Inject))
	require.Equal(t, 8, b.ok(efa.Received, 1).N)
	x, y := make([]byte, 3), make([]byte, 10)
	_, err := b.ep.PostRecv(&efa.RecvReq{Bufs: [][]byte{x, y}, Token: 3})
	require.NoError(t, err)
	_, err = a.ep.PostSend(&efa.SendReq{To: a.peer, Bufs: [][]byte{[]byte("ab"), []byte("cdefg")}, Token: 4})
	require.NoError(t, err)
	require.Equal(t, 7, b.ok(efa.Received, 3).N)
	require.Equal(t, "abcdefg", string(x)+string(y[:4]))
	a.ok(efa.Sent, 4)
}

func (s *side) scheme() string {
	name, _, _ := strings.Cut(s.ep.Address().String(), "://")
	return name
}

// queueFull: what the send queue has no room for waits, and receives are more than slots.
func queueFull(t *testing.T, w *world) {
	few := efa.ProtocolConfig{SendQueue: 2, RecvQueue: 2}
	a, b := w.direct(few), w.direct(few)
	a.meet(b)
	const n = 40
	bufs := make([][4]byte, n)
	for i := range bufs {
		b.recv(bufs[i][:], uint64(i))
	}
	for i := range n {
		a.send([]byte{byte(i)}, uint64(i))
	}
	seen := map[byte]bool{}
	for i := range n {
		b.ok(efa.Received, uint64(i)) // in the order of posting
		seen[bufs[i][0]] = true
	}
	require.Len(t, seen, n)
	for range n {
		require.NoError(t, a.next().Err)
	}
	word := make([]byte, 2) // injected: it is the caller's again at once
	for i := range n {
		word[0], word[1] = byte(i), 1
		require.NoError(t, a.ep.Send(a.ctx, a.peer, word, efa.Inject))
		clear(word)
	}
	clear(seen)
	for i := range n {
		b.recv(bufs[i][:], uint64(i))
	}
	for i := range n {
		require.Equal(t, 2, b.ok(efa.Received, uint64(i)).N)
		require.Equal(t, byte(1), bufs[i][1], "message %d", bufs[i][0])
		seen[bufs[i][0]] = true
	}
	require.Len(t, seen, n)
}

// notReady: without a receive a message waits at the device, or fails if it is to.
func notReady(t *testing.T, w *world) {
	a, b := w.pair()
	a.send([]byte("early"), 1)
	once := w.direct(efa.ProtocolConfig{RNRRetry: -1})
	once.meet(b)
	once.send([]byte("never"), 2)
	once.failed(efa.ErrNoRx, 2)
	buf := make([]byte, 10)
	b.recv(buf, 3)
	require.Equal(t, 5, b.ok(efa.Received, 3).N)
	a.ok(efa.Sent, 1)
	a.check(b)
	b.check(a)
}

// truncation: the receive ends with both lengths, the next one is unharmed.
func truncation(t *testing.T, w *world) {
	a, b := w.pair()
	buf := make([]byte, 5, 10)
	b.recv(buf, 1)
	a.send([]byte("too long"), 2)
	c := b.failed(efa.ErrTruncated, 1)
	var e *efa.OpError
	require.ErrorAs(t, c.Err, &e)
	require.Equal(t, [2]int{5, 3}, [2]int{e.N, e.Lost})
	require.Equal(t, "too l", string(buf))
	require.Equal(t, make([]byte, 5), buf[5:10])
	a.ok(efa.Sent, 2)
	b.recv(nil, 3)
	a.send(pattern(a.mtu(), 0), 4)
	b.failed(efa.ErrTruncated, 3)
	a.ok(efa.Sent, 4)
	a.check(b)
}

// refusals: what there is not ends with the reason, at once, and does no harm.
func refusals(t *testing.T, w *world) {
	a, b := w.pair()
	long := make([]byte, a.mtu()+1)
	word := make([]byte, 8)
	there := a.ep.Memory(a.peer, efa.RawRemote(4096, 1<<40, 1))
	info := a.dev.Info()
	for name, x := range map[string]struct {
		want error
		call func(context.Context) error
	}{
		"tagged":           {efa.ErrNotSupported, func(c context.Context) error { return a.ep.SendTag(c, a.peer, 1, word) }},
		"tagged receive":   {efa.ErrNotSupported, func(c context.Context) error { _, err := a.ep.RecvTag(c, efa.AnyTag, word); return err }},
		"directed receive": {efa.ErrNotSupported, func(c context.Context) error { _, err := a.ep.Recv(c, word, efa.From(a.peer)); return err }},
		"delivered": {efa.ErrNotSupported, func(c context.Context) error {
			return a.ep.Send(c, a.peer, word, efa.Complete(efa.Delivered))
		}},
		"above the MTU":     {efa.ErrMsgSize, func(c context.Context) error { return a.ep.Send(c, a.peer, long) }},
		"data of 33 bits":   {efa.ErrNotSupported, func(c context.Context) error { return a.ep.Send(c, a.peer, word, efa.Data(1<<32)) }},
		"atomic":            {efa.ErrNotSupported, func(c context.Context) error { _, err := efa.NewCell[uint64](there).FetchAdd(c, 1); return err }},
		"atomic write":      {efa.ErrNotSupported, func(c context.Context) error { return efa.NewCell[uint64](there).Update(c, amo.Sum, []uint64{1}) }},
		"no such peer":      {efa.ErrInvalid, func(c context.Context) error { return a.ep.Send(c, 77, word) }},
		"peek":              {efa.ErrNotSupported, func(c context.Context) error { _, err := a.ep.Peek(c); return err }},
		"read above":        {above(info.RDMARead), func(c context.Context) error { return there.Read(c, make([]byte, info.MaxRDMA+1)) }},
		"write above":       {above(info.RDMAWrite), func(c context.Context) error { return there.Write(c, make([]byte, info.MaxRDMA+1)) }},
		"emulated memory":   {efa.ErrNotSupported, func(c context.Context) error { return a.unreachable().Write(c, word) }},
		"emulated for read": {efa.ErrNotSupported, func(c context.Context) error { return a.unreachable().Read(c, word) }},
	} {
		if info.MaxRDMA > 1<<24 && (name == "read above" || name == "write above") {
			continue // as much memory
		}
		require.ErrorIs(t, x.call(a.ctx), x.want, name)
	}
	a.check(b)
	b.check(a)
}

// above is how RDMA of too much is refused by a device that has it, or not.
func above(has bool) error {
	if has {
		return efa.ErrMsgSize
	}
	return efa.ErrNotSupported
}

// unreachable is memory of which the key says that no device reaches it.
func (s *side) unreachable() efa.Memory {
	return s.ep.Memory(s.peer, efa.RawRemote(4096, 4096, 1<<63|5))
}

// strangers: a message of somebody in no address vector is one, and says where it is from.
func strangers(t *testing.T, w *world) {
	a, b := w.direct(efa.ProtocolConfig{}), w.direct(efa.ProtocolConfig{})
	a.meet(b)
	buf := make([]byte, 10)
	b.recv(buf, 1)
	a.send([]byte("who"), 2)
	c := b.ok(efa.Received, 1)
	require.Equal(t, efa.NoAddr, c.From)
	raw, _ := a.ep.Address().Raw(a.scheme())
	require.Equal(t, raw.QPN(), c.Raw().QPN())
	require.Equal(t, raw.GID(), c.Raw().GID())
	a.ok(efa.Sent, 2)
	b.meet(a)
	b.recv(buf, 1)
	a.send([]byte("me"), 2)
	require.Equal(t, b.peer, b.ok(efa.Received, 1).From)
	a.ok(efa.Sent, 2)
	require.NoError(t, b.ep.AddressVector().Remove(b.ctx, b.peer))
	b.recv(buf, 1)
	a.send([]byte("still"), 2)
	require.Equal(t, efa.NoAddr, b.ok(efa.Received, 1).From)
	a.ok(efa.Sent, 2)
	b.meet(a)
	a.check(b)
	b.check(a)
}

// flood: as many messages as receives, out of order, each once.
func flood(t *testing.T, w *world) {
	a, b := w.pair()
	const n, window = 2000, 64
	seen, bufs := make([]bool, n), [window][8]byte{}
	for i := range window {
		b.recv(bufs[i][:], uint64(i))
	}
	sent, acked := 0, 0
	for got := 0; got < n; {
		for ; sent < n && sent-acked < 32; sent++ {
			a.send([]byte{byte(sent), byte(sent >> 8)}, 1)
		}
		for ; acked < sent; acked++ {
			require.NoError(t, a.next().Err)
			c := b.next()
			require.NoError(t, c.Err)
			x := &bufs[c.Token]
			i := int(x[0]) | int(x[1])<<8
			require.False(t, seen[i], "message %d twice", i)
			seen[i] = true
			if got++; got+window <= n {
				b.recv(x[:], c.Token)
			}
		}
	}
}
