package efa_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

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
