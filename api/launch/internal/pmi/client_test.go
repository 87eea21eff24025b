package pmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/launch/internal/board"
)

func each(clients []*Client, fn func(k *Client) error) error {
	errs := make([]error, len(clients))
	var all sync.WaitGroup
	for i, k := range clients {
		all.Go(func() { errs[i] = fn(k) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// TestExchange: values of all lengths, with either version, whichever was asked for.
func TestExchange(t *testing.T) {
	for _, version := range []int{1, 2} {
		for _, ask := range []int{1, 2} {
			for _, byPort := range []bool{false, true} {
				for _, vallen := range []int{1024, 80, 100_000} {
					if version == 2 && vallen < 1024 {
						continue // fixed there
					}
					t.Run(fmt.Sprintf("PMI-%d,ask=%d,port=%v,vallen=%d", version, ask, byPort, vallen), func(t *testing.T) {
						l := newLauncher(version, 3)
						l.vallen = vallen
						exchange(t, l, l.start(t, ask, byPort))
					})
				}
			}
		}
	}
}

func exchange(t *testing.T, l *launcher, clients []*Client) {
	ctx := testContext(t)
	sizes := []int{0, 1, 2, 3, 55, 56, 57, 520, 521, 2000, board.MaxValue}
	value := func(rank, n int) []byte { return bytes.Repeat([]byte{byte(rank), 0xff, ';', '='}, n)[:n] }
	key := func(rank, n int) string { return fmt.Sprintf("%s%d.%d", strings.Repeat("k", 30), rank, n) }
	require.NoError(t, each(clients, func(k *Client) error {
		for _, n := range sizes {
			if err := k.Put(ctx, key(k.Rank, n), value(k.Rank, n)); err != nil {
				return err
			}
		}
		if err := k.Fence(ctx); err != nil {
			return err
		}
		for r := range l.size {
			for _, n := range sizes {
				got, ok, err := k.Get(ctx, key(r, n))
				if err != nil || !ok || !bytes.Equal(got, value(r, n)) {
					return fmt.Errorf("rank %d, size %d: %d bytes, %v, %w", r, n, len(got), ok, err)
				}
			}
		}
		if _, ok, err := k.Get(ctx, "nobody"); ok || err != nil {
			return fmt.Errorf("what nobody put: %v %w", ok, err)
		}
		return errors.Join(k.Fence(ctx), k.Close())
	}))
	assert.Equal(t, l.size, l.ended, "processes that took leave")
	for _, k := range clients {
		assert.ErrorIs(t, k.Fence(ctx), net.ErrClosed)
		assert.NoError(t, k.Close())
	}
}

func TestAbort(t *testing.T) {
	for version, want := range map[int]string{1: "abort", 2: "abort a;b"} {
		l := newLauncher(version, 1)
		k := l.start(t, version, false)[0]
		k.Abort("a;b")
		k.Abort("again")
		require.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.aborted) == 1 }, testTime, tick)
		assert.Equal(t, want, l.aborted[0])
		assert.NoError(t, k.Close())
	}
}

// TestDeadline: a barrier that others do not reach. After it nothing is asked any more,
// and the launcher sees a process end that has not taken leave.
func TestDeadline(t *testing.T) {
	for _, version := range []int{1, 2} {
		l := newLauncher(version, 2)
		clients := l.start(t, version, false)
		ctx, cancel := context.WithCancelCause(testContext(t))
		var canceler sync.WaitGroup
		canceler.Go(func() {
			assert.Eventually(t, func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.at == 1 }, testTime, tick)
			cancel(context.DeadlineExceeded)
		})
		err := clients[0].Fence(ctx)
		canceler.Wait()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "not all 2 ranks arrived")
		_, _, err = clients[0].Get(testContext(t), "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, clients[0].Close())
		assert.Zero(t, l.ended)
		if err := clients[1].Fence(testContext(t)); err != nil { // the fake launcher counts the one that came
			t.Fatal(err)
		}
	}
}

func TestLauncherDies(t *testing.T) {
	for _, version := range []int{1, 2} {
		l := newLauncher(version, 1)
		ours, theirs := net.Pipe()
		var served sync.WaitGroup
		served.Go(func() { l.serve(theirs, 0, false) })
		k, err := Open(testContext(t), Config{Conn: ours, Version: version, Rank: 0, Size: 1})
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		err = k.Fence(testContext(t))
		var f *board.Failure
		if errors.As(err, &f) {
			assert.Equal(t, board.Gone, f.Kind)
		} else {
			assert.Error(t, err) // the pipe may say it in its own words
		}
		assert.NoError(t, k.Close())
		served.Wait()
	}
}

func TestBadEntries(t *testing.T) {
	k := newLauncher(1, 1).start(t, 1, false)[0]
	for _, key := range []string{"", "a b", "a=b", "a;b", "a:1", "a\n", strings.Repeat("k", 41)} {
		assert.ErrorIs(t, k.Put(testContext(t), key, nil), board.ErrEntry, "%q", key)
	}
	assert.ErrorIs(t, k.Put(testContext(t), "a", make([]byte, board.MaxValue+1)), board.ErrEntry)
	require.NoError(t, k.Put(testContext(t), "a", nil))
	assert.ErrorIs(t, k.Put(testContext(t), "a", nil), errRefused, "twice")
}
