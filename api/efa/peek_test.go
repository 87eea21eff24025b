package efa_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

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
