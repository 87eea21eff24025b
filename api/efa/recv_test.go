package efa_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

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

// arrives peeks until there is a message.
func arrives(t *testing.T, s *side, m efa.Match, tagged bool) efa.Message {
	t.Helper()
	ctx := testContext(t)
	for {
		var msg efa.Message
		var err error
		if tagged {
			msg, err = s.ep.PeekTag(ctx, m)
		} else {
			msg, err = s.ep.Peek(ctx)
		}
		if err == nil {
			return msg
		}
		require.ErrorIs(t, err, efa.ErrNoMessage)
		require.NoError(t, ctx.Err())
	}
}

// TestPeekAndClaim: messages by each subprotocol are described, taken out, received
// or thrown away, and their senders complete.
func TestPeekAndClaim(t *testing.T) {
	everywhere(t, efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinRead: 500_000}}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		src, dst := alloc(t, a, 1<<20, 0).Bytes(), alloc(t, b, 1<<20, 0).Bytes()
		_, err := b.ep.Peek(ctx)
		require.ErrorIs(t, err, efa.ErrNoMessage)
		_, err = b.ep.ClaimTag(ctx, efa.AnyTag)
		require.ErrorIs(t, err, efa.ErrNoMessage)
		for _, tagged := range []bool{false, true} {
			claim := func(tag uint64) (*efa.Claimed, error) {
				if tagged {
					return b.ep.ClaimTag(ctx, efa.Match{Tag: tag})
				}
				return b.ep.Claim(ctx)
			}
			for i, n := range []int{0, 100, 20_000, 200_000, 1 << 20} {
				for _, level := range []efa.Level{efa.Transmitted, efa.Delivered} {
					send := func(tag uint64) *efa.Op {
						return start(t, a, &efa.SendReq{
							To: a.peer, Buf: src[:n], Level: level, Tagged: tagged, Tag: tag, HasData: true, Data: tag + 50,
						})
					}
					check := func(m efa.Message, tag uint64) {
						t.Helper()
						require.Equal(t, []any{n, b.peer, tag + 50, true, tagged}, []any{m.N, m.From, m.Data, m.HasData, m.Tagged})
						if tagged {
							require.Equal(t, tag, m.Tag)
						}
						require.Equal(t, must(a.ep.Address().Raw(rawOf(a))), m.Raw())
					}
					// Peek, and it is still there.
					one := send(1)
					check(arrives(t, b, efa.Match{Tag: 1}, tagged), 1)
					check(arrives(t, b, efa.Match{Tag: 1}, tagged), 1)
					// Claim it: the next receive gets the next one.
					c1, err := claim(1)
					require.NoError(t, err)
					check(c1.Message, 1)
					_, err = claim(1)
					require.ErrorIs(t, err, efa.ErrNoMessage)
					two := send(2)
					arrives(t, b, efa.Match{Tag: 2}, tagged)
					c2, err := claim(2)
					require.NoError(t, err)
					three := send(3)
					clear(dst)
					recv := start(t, b, &efa.RecvReq{Buf: dst[:n], Tagged: tagged, Ignore: ^uint64(0)})
					check(done(t, recv).Message, 3)
					done(t, three)
					// The claimed ones, in another order.
					require.NoError(t, c2.Discard(ctx))
					done(t, two)
					clear(dst)
					m, err := c1.Recv(ctx, dst[:n])
					require.NoError(t, err)
					check(m, 1)
					require.True(t, bytes.Equal(src[:n], dst[:n]))
					done(t, one)
					for _, err := range []error{second(c1.Recv(ctx, nil)), c2.Discard(ctx), c1.Discard(ctx)} {
						require.ErrorIs(t, err, efa.ErrInvalid, "over")
					}
					if i > 0 {
						four := send(4)
						arrives(t, b, efa.Match{Tag: 4}, tagged)
						c, err := claim(4)
						require.NoError(t, err)
						m, err := c.Recv(ctx, dst[:n/2])
						require.ErrorIs(t, err, efa.ErrTruncated)
						require.Equal(t, n/2, m.N)
						done(t, four)
					}
				}
			}
		}
		var cs [1]efa.Completion
		require.Zero(t, b.ep.RecvQueue().TryRead(cs[:]))
	})
}

// TestPeekMatches: order, tags, and the sender are those of a receive.
func TestPeekMatches(t *testing.T) {
	hub := newHub(t, 3)
	ctx := testContext(t)
	r := hub[0]
	var from []efa.Addr
	for i, s := range hub[1:] {
		h, err := r.av.Insert(s.ep.Address())
		require.NoError(t, err)
		from = append(from, h)
		for tag := range uint64(3) {
			require.NoError(t, s.ep.SendTag(ctx, s.peer, 10*uint64(i+1)+tag, nil, efa.Complete(efa.Transmitted)))
		}
		arrives(t, r, efa.Match{Tag: 10*uint64(i+1) + 2}, true)
	}
	tag := func(m efa.Match, opts ...efa.OpOption) uint64 {
		msg, err := r.ep.PeekTag(ctx, m, opts...)
		if err != nil {
			require.ErrorIs(t, err, efa.ErrNoMessage)
			return 0
		}
		return msg.Tag
	}
	require.EqualValues(t, 10, tag(efa.AnyTag), "the oldest")
	require.EqualValues(t, 20, tag(efa.AnyTag, efa.From(from[1])))
	require.EqualValues(t, 21, tag(efa.Match{Tag: 1, Ignore: ^uint64(1)}, efa.From(from[1])))
	require.EqualValues(t, 0, tag(efa.Match{Tag: 13}))
	require.EqualValues(t, 0, tag(efa.Match{Tag: 10}, efa.From(from[1])))
	_, err := r.ep.Peek(ctx)
	require.ErrorIs(t, err, efa.ErrNoMessage, "untagged there is none")

	c, err := r.ep.ClaimTag(ctx, efa.AnyTag, efa.From(from[1]))
	require.NoError(t, err)
	require.EqualValues(t, 20, c.Message.Tag)
	require.EqualValues(t, 21, tag(efa.AnyTag, efa.From(from[1])))
	require.NoError(t, c.Discard(ctx))

	// A claim ends with its endpoint.
	c, err = r.ep.ClaimTag(ctx, efa.AnyTag)
	require.NoError(t, err)
	require.NoError(t, r.ep.Close())
	require.ErrorIs(t, second(c.Recv(ctx, nil)), efa.ErrClosed)
	require.ErrorIs(t, second(r.ep.Peek(ctx)), efa.ErrClosed)
}

func postPeek(t *testing.T, s *side, r efa.PeekReq) efa.OpID {
	t.Helper()
	id, err := s.ep.PostPeek(&r)
	require.NoError(t, err)
	return id
}

// TestPostPeek: posted peeks find, claim and discard messages by each subprotocol, of which
// the senders complete, and say where there is none.
func TestPostPeek(t *testing.T) {
	everywhere(t, efa.EndpointConfig{Protocol: efa.ProtocolConfig{MinRead: 500_000}}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		id := postPeek(t, b, efa.PeekReq{Token: 5, Tagged: true, Tag: 9})
		c := next(t, b)
		require.Equal(t, []any{efa.Peeked, id, uint64(5)}, []any{c.Kind, c.ID, c.Token})
		require.ErrorIs(t, c.Err, efa.ErrNoMessage)
		require.Nil(t, b.ep.Claimed(&c))
		_, err := b.ep.PostPeek(&efa.PeekReq{Claim: true, Discard: true})
		require.ErrorIs(t, err, efa.ErrInvalid)
		_, err = b.ep.PostPeek(&efa.PeekReq{Directed: true, From: efa.NoAddr})
		require.ErrorIs(t, err, efa.ErrInvalid)

		src, dst := alloc(t, a, 1<<20, 0).Bytes(), alloc(t, b, 1<<20, 0).Bytes()
		for i, n := range []int{0, 100, 20_000, 200_000, 1 << 20} {
			send := func(tag uint64) *efa.Op {
				return start(t, a, &efa.SendReq{To: a.peer, Buf: src[:n], Level: efa.Delivered, Tagged: true, Tag: tag, HasData: true, Data: 50 + tag})
			}
			check := func(c efa.Completion, tag uint64) {
				t.Helper()
				require.NoError(t, c.Err)
				require.Equal(t, []any{efa.Peeked, n, b.peer, tag, 50 + tag, true}, []any{c.Kind, c.N, c.From, c.Tag, c.Data, c.HasData && c.Tagged})
			}
			// A peek that waits finds it, one that does not finds it after that.
			postPeek(t, b, efa.PeekReq{Tagged: true, Tag: 1, Wait: true, Directed: i%2 == 0, From: b.peer})
			one := send(1)
			check(next(t, b), 1)
			postPeek(t, b, efa.PeekReq{Tagged: true, Tag: 0, Ignore: 1})
			check(next(t, b), 1)
			// A claim takes it away.
			postPeek(t, b, efa.PeekReq{Tagged: true, Tag: 1, Claim: true})
			c := next(t, b)
			check(c, 1)
			postPeek(t, b, efa.PeekReq{Tagged: true, Tag: 1})
			require.ErrorIs(t, next(t, b).Err, efa.ErrNoMessage)
			// Another is thrown away, as soon as it comes.
			postPeek(t, b, efa.PeekReq{Tagged: true, Tag: 2, Discard: true, Wait: true})
			done(t, send(2))
			check(next(t, b), 2)
			clear(dst)
			claimed := b.ep.Claimed(&c)
			require.Equal(t, n, claimed.Message.N)
			if i%2 == 0 {
				_, err = claimed.PostRecv(&efa.RecvReq{Buf: dst[:n], Token: 8})
				require.NoError(t, err)
				c = next(t, b)
				require.NoError(t, c.Err)
				require.Equal(t, []any{efa.Received, uint64(8), n}, []any{c.Kind, c.Token, c.N})
			} else {
				_, err = claimed.Recv(ctx, dst[:n])
				require.NoError(t, err)
			}
			require.True(t, bytes.Equal(src[:n], dst[:n]))
			done(t, one)
			require.ErrorIs(t, second(claimed.Recv(ctx, nil)), efa.ErrInvalid, "over")
		}
	})
}

// TestPeekAndClaimWait: the calls that wait return what comes next, and end with their
// context, and with the endpoint.
func TestPeekAndClaimWait(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		for i, n := range []int{10, 100_000, 1 << 20} {
			sent := make(chan error, 1)
			src := pattern(n)
			go func() { sent <- a.ep.SendTag(ctx, a.peer, 3, src, efa.Complete(efa.Delivered)) }()
			if i > 0 {
				m, err := b.ep.PeekTag(ctx, efa.AnyTag, efa.Wait, efa.From(b.peer))
				require.NoError(t, err)
				require.Equal(t, n, m.N)
			}
			c, err := b.ep.ClaimTag(ctx, efa.Match{Tag: 3}, efa.Wait)
			require.NoError(t, err)
			p := make([]byte, c.Message.N)
			m, err := c.Recv(ctx, p)
			require.NoError(t, err)
			require.Equal(t, n, m.N)
			require.True(t, bytes.Equal(src, p))
			require.NoError(t, <-sent)
		}
		short, cancel := context.WithCancel(ctx)
		ended := make(chan error, 2)
		go func() { ended <- second(b.ep.Peek(short, efa.Wait)) }()
		go func() { ended <- second(b.ep.Claim(short, efa.Wait, efa.From(b.peer))) }()
		require.Eventually(t, func() bool { return waits(t, b.ep)["peek"] != "" && waits(t, b.ep)["claim"] != "" }, time.Minute, time.Millisecond)
		cancel()
		for range 2 {
			err := <-ended
			require.ErrorIs(t, err, efa.ErrCanceled)
			require.ErrorIs(t, err, context.Canceled)
		}
		id := postPeek(t, b, efa.PeekReq{Wait: true})
		require.NoError(t, b.ep.Cancel(id))
		require.ErrorIs(t, next(t, b).Err, efa.ErrCanceled)
		// A receive takes what comes before those that only look.
		go func() { ended <- second(b.ep.Claim(ctx, efa.Wait)) }()
		require.Eventually(t, func() bool { return waits(t, b.ep)["claim"] != "" }, time.Minute, time.Millisecond)
		recv := start(t, b, &efa.RecvReq{Buf: make([]byte, 8)})
		_, err := b.ep.Stats(ctx) // when the shard has the receive: a claim may have what comes before that
		require.NoError(t, err)
		require.NoError(t, a.ep.Send(ctx, a.peer, []byte("x")))
		done(t, recv)
		postPeek(t, b, efa.PeekReq{Wait: true, Discard: true})
		require.NoError(t, b.ep.Close())
		require.ErrorIs(t, <-ended, efa.ErrClosed)
		require.ErrorIs(t, next(t, b).Err, efa.ErrClosed)
	})
}

// TestPostPeekAllocatesNothing: nor does a blocking peek in vain.
func TestPostPeekAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := lab{dev: sim.DeviceConfig{}, mode: efa.ProgressManual}.open(t)
	ctx := context.Background()
	var cs [1]efa.Completion
	look := func(r *efa.PeekReq) error {
		if _, err := b.ep.PostPeek(r); err != nil {
			return err
		}
		_, err := b.ep.RecvQueue().Read(ctx, cs[:])
		return err
	}
	require.NoError(t, a.ep.Send(ctx, a.peer, []byte("x")))
	for name, call := range map[string]func() error{
		"in vain": func() error { return look(&efa.PeekReq{Tagged: true, Token: 1}) },
		"found":   func() error { return look(&efa.PeekReq{Token: 1}) },
		"blocking": func() error {
			if _, err := b.ep.PeekTag(ctx, efa.AnyTag); !errors.Is(err, efa.ErrNoMessage) {
				return err
			}
			return nil
		},
		"waits": func() error {
			if _, err := b.ep.PostPeek(&efa.PeekReq{Wait: true, Tagged: true, Tag: 1, Discard: true}); err != nil {
				return err
			}
			if err := a.ep.SendTag(ctx, a.peer, 1, cs0); err != nil {
				return err
			}
			_, err := b.ep.RecvQueue().Read(ctx, cs[:])
			return err
		},
	} {
		var failed error
		require.Zero(t, fewestAllocs(200, func() {
			if err := call(); err != nil {
				failed = err
			}
		}), name)
		require.NoError(t, failed, name)
	}
}

var cs0 = []byte("discard me")

// TestWanted: messages that the endpoint does not want are thrown away as they come, and their senders complete at
// each level; a receive that waits for one gets it, and long ones stay.
func TestWanted(t *testing.T) {
	cfg := efa.EndpointConfig{Wanted: func(_ efa.Addr, tagged bool, tag uint64) bool { return tagged && tag < 10 }}
	everywhere(t, cfg, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		posted := start(t, b, &efa.RecvReq{Tagged: true, Tag: 20, Buf: make([]byte, 4)})
		require.NoError(t, a.ep.SendTag(ctx, a.peer, 20, []byte("word"))) // it has a receive
		_, err := posted.Wait(ctx)
		require.NoError(t, err)
		for _, level := range []efa.Level{efa.Transmitted, efa.Delivered} {
			require.NoError(t, a.ep.SendTag(ctx, a.peer, 20, []byte("word"), efa.Complete(level)))
			require.NoError(t, a.ep.Send(ctx, a.peer, []byte("word"), efa.Complete(level)))
		}
		require.NoError(t, a.ep.SendTag(ctx, a.peer, 5, []byte("last")))
		arrives(t, b, efa.Match{Tag: 5}, true)
		s, err := b.ep.Snapshot(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, s.Queues.Unexpected)
		require.EqualValues(t, 4, s.Counters["Unwanted"])
		long := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, 200_000), Tagged: true, Tag: 20})
		require.Equal(t, 200_000, arrives(t, b, efa.Match{Tag: 20}, true).N)
		cl, err := b.ep.ClaimTag(ctx, efa.Match{Tag: 20})
		require.NoError(t, err)
		require.NoError(t, cl.Discard(ctx))
		_, err = long.Wait(ctx)
		require.NoError(t, err)
	})
}
