package efa_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// reads waits for n completions of a side's receives.
func reads(t *testing.T, s *side, n int) []efa.Completion {
	t.Helper()
	cs := make([]efa.Completion, n)
	for got := 0; got < n; {
		k, err := s.ep.RecvQueue().Read(testContext(t), cs[got:])
		require.NoError(t, err)
		got += k
	}
	return cs
}

// TestMultiRecv: a thousand small messages in one buffer, tagged or not, each with its place
// and what it says of itself; none overlaps another. The buffer is released once.
func TestMultiRecv(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		for _, tagged := range []bool{false, true} {
			const n, size = 1000, 1 << 20
			buf := make([]byte, size)
			id, err := b.ep.PostRecv(&efa.RecvReq{
				Buf: buf, Multi: true, Token: 42, Tagged: tagged, Tag: 0x100, Ignore: 0xffff, MinLeft: size - 8*n - 16,
			})
			require.NoError(t, err)
			small := make([]byte, 8)
			go func() {
				for i := range uint64(n) {
					binary.LittleEndian.PutUint64(small, i)
					var err error
					if tagged {
						err = a.ep.SendTag(ctx, a.peer, i, small, efa.Data(i+7))
					} else {
						err = a.ep.Send(ctx, a.peer, small, efa.Data(i+7))
					}
					if err != nil {
						return // the receiver sees that something is missing
					}
				}
			}()
			for i := range n {
				c := reads(t, b, 1)[0]
				require.NoError(t, c.Err)
				require.Equal(t, []any{efa.Received, id, uint64(42), 8, i * 8, tagged, b.peer, uint64(i + 7)},
					[]any{c.Kind, c.ID, c.Token, c.N, c.Offset, c.Tagged, c.From, c.Data})
				require.Equal(t, uint64(i), binary.LittleEndian.Uint64(buf[c.Offset:]))
				if tagged {
					require.Equal(t, uint64(i), c.Tag)
				}
			}
			require.NoError(t, a.ep.SendTag(ctx, a.peer, 1<<40, nil)) // of another class
			require.NoError(t, b.ep.Cancel(id))
			c := reads(t, b, 1)[0]
			require.ErrorIs(t, c.Err, efa.ErrCanceled)
			require.Equal(t, []any{efa.Released, id, uint64(42), 8 * n}, []any{c.Kind, c.ID, c.Token, c.N})
			_, err = b.ep.RecvTag(ctx, efa.Match{Tag: 1 << 40}, nil)
			require.NoError(t, err)
		}
	})
}

// TestMultiRecvSizes: messages of all subprotocols in one buffer, while small ones go on; the
// buffer is released after the last of them.
func TestMultiRecvSizes(t *testing.T) {
	everywhere(t, efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinRead: 500_000}}, func(t *testing.T, a, b *side) {
		sizes := []int{100, 1 << 20, 100, 20_000, 0, 100_000, 1 << 20, 8700, 300}
		total := 0
		for _, n := range sizes {
			total += (n + efa.MultiRecvAlign - 1) / efa.MultiRecvAlign * efa.MultiRecvAlign
		}
		src := alloc(t, a, 1<<20, 0).Bytes()
		copy(src, pattern(1<<20))
		for _, plain := range []bool{false, true} {
			buf := make([]byte, total+4096)
			if !plain {
				buf = alloc(t, b, total+4096, 0).Bytes()
			}
			// Nothing fits after the last one.
			_, err := b.ep.PostRecv(&efa.RecvReq{Buf: buf, Multi: true, MinLeft: 4097})
			require.NoError(t, err)
			var ops []*efa.Op
			for i, n := range sizes {
				ops = append(ops, start(t, a, &efa.SendReq{To: a.peer, Buf: src[:n], HasData: true, Data: uint64(i)}))
			}
			cs, at := reads(t, b, len(sizes)+1), 0
			require.Equal(t, efa.Released, cs[len(sizes)].Kind)
			require.NoError(t, cs[len(sizes)].Err)
			where := make([]int, len(sizes))
			for _, c := range cs[:len(sizes)] {
				require.NoError(t, c.Err)
				n := sizes[c.Data]
				require.Equal(t, []any{efa.Received, n}, []any{c.Kind, c.N})
				require.True(t, bytes.Equal(src[:n], buf[c.Offset:][:n]), "%d bytes", n)
				where[c.Data] = c.Offset
			}
			for i, n := range sizes {
				require.Equal(t, at, where[i])
				at += (n + efa.MultiRecvAlign - 1) / efa.MultiRecvAlign * efa.MultiRecvAlign
			}
			for _, op := range ops {
				_, err := op.Wait(testContext(t))
				require.NoError(t, err)
			}
		}
	})
}

// TestMultiRecvQuiet: messages without completions, and a released buffer that has one.
func TestMultiRecvQuiet(t *testing.T) {
	a, b := lab{dev: sim.DeviceConfig{}}.open(t)
	buf := make([]byte, 64)
	_, err := b.ep.PostRecv(&efa.RecvReq{Buf: buf, Multi: true, Quiet: true, MinLeft: 1, Token: 3})
	require.NoError(t, err)
	for i := range byte(8) {
		require.NoError(t, a.ep.Send(testContext(t), a.peer, []byte{i}))
	}
	c := reads(t, b, 1)[0]
	require.Equal(t, []any{efa.Released, uint64(3), 64, error(nil)}, []any{c.Kind, c.Token, c.N, c.Err})
	for i := range byte(8) {
		require.Equal(t, i, buf[8*int(i)])
	}
	require.Zero(t, b.ep.RecvQueue().TryRead(make([]efa.Completion, 1)))
}

// TestMultiRecvMinLeft: the endpoint's minimum, and that of a post, hold from the post on.
func TestMultiRecvMinLeft(t *testing.T) {
	a, b := lab{dev: sim.DeviceConfig{}, ep: efa.EndpointConfig{MinMultiRecv: 100}}.open(t)
	require.Equal(t, 100, b.ep.Config().MinMultiRecv)
	used := func(r efa.RecvReq, each int) int {
		r.Buf, r.Multi = make([]byte, 1000), true
		_, err := b.ep.PostRecv(&r)
		require.NoError(t, err)
		for {
			require.NoError(t, a.ep.Send(testContext(t), a.peer, make([]byte, each)))
			if reads(t, b, 1)[0].N != each {
				t.Fatal("not the message")
			}
			if cs := make([]efa.Completion, 1); b.ep.RecvQueue().TryRead(cs) == 1 {
				require.Equal(t, efa.Released, cs[0].Kind)
				return cs[0].N
			}
		}
	}
	require.Equal(t, 904, used(efa.RecvReq{}, 8)) // of less than 100 left, in steps of 8
	require.Equal(t, 600, used(efa.RecvReq{MinLeft: 401}, 8))
	require.Equal(t, 1000, used(efa.RecvReq{MinLeft: 1}, 8))
	require.Equal(t, 8, used(efa.RecvReq{MinLeft: 4096}, 8))

	d, _ := lab{dev: sim.DeviceConfig{}}.open(t)
	require.Equal(t, d.dom.Limits().MTU, d.ep.Config().MinMultiRecv)
}

// TestMultiRecvRoom: a queue of 4 completions and 100 messages: those for which there is no room
// wait, none is lost, and the queue is never overrun.
func TestMultiRecvRoom(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		dom := b.dom
		q := newQueue(t, dom, 4)
		s := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q})
		to, err := a.av.Insert(s.ep.Address())
		require.NoError(t, err)
		buf := make([]byte, 8192)
		_, err = s.ep.PostRecv(&efa.RecvReq{Buf: buf, Multi: true, MinLeft: 8192 - 8*99})
		require.NoError(t, err)
		ctx := testContext(t)
		for i := range byte(100) {
			require.NoError(t, a.ep.Send(ctx, to, []byte{i}, efa.Complete(efa.Transmitted)))
		}
		cs := make([]efa.Completion, 8)
		for i := 0; i <= 100; {
			n, err := q.Read(ctx, cs)
			require.NoError(t, err)
			require.LessOrEqual(t, n, 4)
			for _, c := range cs[:n] {
				require.NoError(t, c.Err)
				if i == 100 {
					require.Equal(t, efa.Released, c.Kind)
				} else {
					require.Equal(t, []int{i * 8, 1, i}, []int{c.Offset, c.N, int(buf[c.Offset])})
				}
				i++
			}
		}
	})
}

// TestMultiRecvWrong: what a receive of many cannot be.
func TestMultiRecvWrong(t *testing.T) {
	_, b := lab{dev: sim.DeviceConfig{}}.open(t)
	buf := make([]byte, 64)
	for _, r := range []*efa.RecvReq{
		{Bufs: [][]byte{buf[:32], buf[32:]}},
		{},
		{Buf: buf, MinLeft: -1},
	} {
		r.Multi = true
		_, err := b.ep.PostRecv(r)
		require.ErrorIs(t, err, efa.ErrInvalid)
	}
	direct := newEndpoint(t, b.dom, efa.EndpointConfig{Direct: true, RecvQueue: newQueue(t, b.dom, 4)})
	_, err := direct.ep.PostRecv(&efa.RecvReq{Buf: buf, Multi: true})
	require.ErrorIs(t, err, efa.ErrNotSupported)
	_, err = direct.ep.Next(testContext(t))
	require.ErrorIs(t, err, efa.ErrNotSupported)
	_, err = b.ep.Start(&efa.RecvReq{Buf: buf, Multi: true})
	require.ErrorIs(t, err, efa.ErrInvalid)
	_, err = b.dom.NewEndpoint(efa.EndpointConfig{MinMultiRecv: -1})
	require.ErrorIs(t, err, efa.ErrInvalid)
}

// TestMultiRecvEnds: a directed buffer ends with its peer, and any with its endpoint.
func TestMultiRecvEnds(t *testing.T) {
	_, b := lab{dev: sim.DeviceConfig{}}.open(t)
	buf := make([]byte, 100)
	_, err := b.ep.PostRecv(&efa.RecvReq{Buf: buf[:50], Multi: true, Token: 1})
	require.NoError(t, err)
	_, err = b.ep.PostRecv(&efa.RecvReq{Buf: buf[50:], Multi: true, Directed: true, From: b.peer, Token: 2})
	require.NoError(t, err)
	require.NoError(t, b.av.Remove(context.Background(), b.peer))
	c := reads(t, b, 1)[0]
	require.Equal(t, []any{efa.Released, uint64(2)}, []any{c.Kind, c.Token})
	require.ErrorIs(t, c.Err, efa.ErrCanceled)
	require.NoError(t, b.ep.Close())
	c = reads(t, b, 1)[0]
	require.Equal(t, []any{efa.Released, uint64(1)}, []any{c.Kind, c.Token})
	require.ErrorIs(t, c.Err, efa.ErrClosed)
}

// TestMultiRecvAllocatesNothing: neither the messages nor the posts allocate.
func TestMultiRecvAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := lab{dev: sim.DeviceConfig{}, mode: efa.ProgressManual}.open(t)
	ctx, buf, msg := context.Background(), make([]byte, 80), make([]byte, 8)
	var cs [16]efa.Completion
	round := func() { // a buffer of ten messages
		_, _ = b.ep.PostRecv(&efa.RecvReq{Buf: buf, Multi: true, MinLeft: 1})
		for range 10 {
			_ = a.ep.Send(ctx, a.peer, msg)
		}
		for n := 0; n < 11; {
			k, err := b.ep.RecvQueue().Read(ctx, cs[:])
			if err != nil {
				return
			}
			n += k
		}
	}
	for range 20 {
		round()
	}
	require.Less(t, fewestAllocs(100, round), 0.1)
}

// TestMultiRecvFullQueue: a program that posts buffers for many until there is no room in the
// queue gets all messages, one by one at worst; posts and batches leave one slot for them.
func TestMultiRecvFullQueue(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	for _, batch := range []bool{false, true} {
		q := newQueue(t, dom, 4)
		s := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: q, SendQueue: newQueue(t, dom, 0)})
		self, err := s.av.Insert(s.ep.Address())
		require.NoError(t, err)
		reqs := make([]efa.RecvReq, 5)
		for i := range reqs {
			reqs[i] = efa.RecvReq{Buf: make([]byte, 1000), Multi: i%2 == 0, MinLeft: 500}
		}
		posted := 0
		if batch {
			posted, err = s.ep.PostRecvs(reqs)
		} else {
			for err == nil {
				if _, err = s.ep.PostRecv(&reqs[posted]); err == nil {
					posted++
				}
			}
		}
		require.ErrorIs(t, err, efa.ErrAgain)
		require.Equal(t, 3, posted)
		ctx := testContext(t)
		const messages = 5 + 1 + 5 // two buffers for many, and between them a receive
		for range messages {
			require.NoError(t, s.ep.Send(ctx, self, make([]byte, 97)))
		}
		kinds := map[efa.Kind]int{}
		for range messages + 2 {
			c := reads(t, s, 1)[0]
			require.NoError(t, c.Err)
			kinds[c.Kind]++
		}
		require.Equal(t, map[efa.Kind]int{efa.Received: messages, efa.Released: 2}, kinds)
		_, err = s.ep.PostRecvs(make([]efa.RecvReq, 4))
		require.NoError(t, err, "all slots are free again")
	}
	one := newEndpoint(t, dom, efa.EndpointConfig{RecvQueue: newQueue(t, dom, 1)})
	_, err := one.ep.PostRecv(&efa.RecvReq{Buf: make([]byte, 10), Multi: true})
	require.ErrorIs(t, err, efa.ErrInvalid)
}
