package efa_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

var modes = []efa.Progress{efa.ProgressManual, efa.ProgressCooperative, efa.ProgressPinned}

// TestSizes moves messages on both sides of each switch point, with the receive
// posted first and with the message first, in each progress mode.
func TestSizes(t *testing.T) {
	for _, mode := range some(t, modes) {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := newPair(t, efa.DomainConfig{Progress: mode})
			ctx := testContext(t)
			for _, n := range []int{0, 1, 8, 8000, 8711, 8712, 8713, 8747, 8748, 8749, 20000, 65535, 65536, 65537, 300000, 5 << 20} {
				for _, tagged := range []bool{false, true} {
					p := pattern(n)
					send := func() error {
						if tagged {
							return a.ep.SendTag(ctx, a.peer, uint64(n), p, efa.Data(uint64(n)))
						}
						return a.ep.Send(ctx, a.peer, p, efa.Data(uint64(n)))
					}
					q := make([]byte, n)
					recv := func() (efa.Message, error) {
						if tagged {
							return b.ep.RecvTag(ctx, efa.Match{Tag: uint64(n)}, q)
						}
						return b.ep.Recv(ctx, q)
					}
					done := make(chan error, 1)
					go func() { done <- send() }()
					m, err := recv()
					require.NoError(t, err, n)
					require.NoError(t, <-done)
					require.Equal(t, efa.Message{N: n, From: b.peer, Tag: m.Tag, Data: uint64(n), HasData: true, Tagged: tagged}.N, m.N)
					require.Equal(t, b.peer, m.From)
					require.Equal(t, uint64(n), m.Data)
					require.True(t, m.HasData)
					require.Equal(t, tagged, m.Tagged)
					require.Equal(t, must(a.ep.Address().Raw("sim")), m.Raw())
					require.True(t, bytes.Equal(p, q), "payload of %d bytes", n)
				}
			}
		})
	}
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic("missing")
	}
	return v
}

// TestOrder: messages of mixed sizes between two endpoints arrive in the order of
// their sending.
func TestOrder(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	ctx := testContext(t)
	sizes := []int{3, 70000, 9000, 0, 8, 66000, 1, 20000, 500}
	const rounds = 40
	done := make(chan error, 1)
	go func() {
		for i := range rounds * len(sizes) {
			p := fmt.Appendf(nil, "%06d", i)
			p = append(p, make([]byte, sizes[i%len(sizes)])...)
			if err := a.ep.Send(ctx, a.peer, p); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	buf := make([]byte, 80000)
	for i := range rounds * len(sizes) {
		m, err := b.ep.Recv(ctx, buf)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%06d", i), string(buf[:6]))
		require.Equal(t, 6+sizes[i%len(sizes)], m.N)
	}
	require.NoError(t, <-done)
}

// TestSelf: an endpoint can talk to itself.
func TestSelf(t *testing.T) {
	a, _ := newPair(t, efa.DomainConfig{})
	self, err := a.av.Insert(a.ep.Address())
	require.NoError(t, err)
	ctx := testContext(t)
	for _, n := range []int{0, 100, 20000, 200000} {
		done := make(chan error, 1)
		go func() { done <- a.ep.Send(ctx, self, pattern(n)) }()
		q := make([]byte, n)
		m, err := a.ep.Recv(ctx, q)
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.Equal(t, self, m.From)
		require.True(t, bytes.Equal(pattern(n), q))
	}
}

// TestManySenders: every message of several senders arrives once, each sender's
// in order.
func TestManySenders(t *testing.T) {
	const senders, each = 6, 300
	hub := newHub(t, senders+1)
	ctx := testContext(t)
	recv := hub[0]
	errs := make(chan error, senders)
	for i := range senders {
		go func() {
			s := hub[i+1]
			for n := range each {
				if err := s.ep.SendTag(ctx, s.peer, uint64(i), fmt.Appendf(nil, "%d", n)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	next := make([]int, senders)
	buf := make([]byte, 64)
	for range senders * each {
		m, err := recv.ep.RecvTag(ctx, efa.AnyTag, buf)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(next[m.Tag]), string(buf[:m.N]))
		next[m.Tag]++
	}
	for range senders {
		require.NoError(t, <-errs)
	}
}
