package shard_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/shard"
)

// TestDrive: a goroutine that polls gets its work done by its own turns, also
// when the helper slept for the shard before.
func TestDrive(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "setter", setter())
	ctx := soon(t)
	for range 20 {
		parked(t, s)
		for range 100 {
			var p ping
			s.Post(ref, &p)
			for !p.sig.IsSet() {
				require.NoError(t, ctx.Err())
				s.Drive()
			}
		}
	}
	for !s.Adopt() { // the helper may have it for a moment
	}
	require.Zero(t, s.Drive(), "it is ours")
	s.Release()
	other := newShard(t, shard.Config{Mode: shard.Cooperative})
	require.Zero(t, other.Drive())
}

// served is a poller that counts what it was given.
type served struct {
	given atomic.Int64
	taken int
}

func (p *served) Poll(*shard.Shard) int {
	n := int(p.given.Swap(0))
	p.taken += n
	return n
}
func (p *served) Flush(*shard.Shard) {}
func (p *served) Arm() bool          { return p.given.Load() == 0 }
func (p *served) FDs() []int         { return nil }

// TestClaim: what a poller was given is done when Run returns, unless another goroutine
// owns the shard.
func TestClaim(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	ref := spawn(t, s, "served", setter())
	var p served
	polled := s.AddPoller(ref, &p)
	for !s.Adopt() { // the helper may have it for a moment
	}
	p.given.Store(1)
	require.False(t, s.Claim(), "it is ours")
	s.Release()
	for !s.Claim() { // the helper may have it for a moment
	}
	s.Run(polled)
	require.Equal(t, 1, p.taken)
	s.Release()

	pinned := newShard(t, shard.Config{Mode: shard.Cooperative})
	require.False(t, pinned.Claim())
}

// TestRunAndWait: what a poller was given is done first, its turn is ended once, and the
// shard is free when the signal is set.
func TestRunAndWait(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	var sig shard.Signal
	p := once{sig: &sig}
	ref := spawn(t, s, "poller", setter())
	polled := s.AddPoller(ref, &p)
	for !s.Claim() { // the helper may have it for a moment
	}
	p.polls, p.flushes = 0, nil
	sig.Reset()
	require.NoError(t, s.RunAndWait(t.Context(), &sig, polled))
	s.RemovePoller(&p) // the helper may have polled it meanwhile
	require.Equal(t, []int{1}, p.flushes, "it is polled once, and flushed in the same turn")
}

// TestRunPanic: a panic in the poller that was given work is the failure of its actor, and the
// turn goes on to its end.
func TestRunPanic(t *testing.T) {
	s := newShard(t, shard.Config{Mode: shard.Manual})
	var p panics
	bad := s.AddPoller(spawn(t, s, "bad", setter()), &p)
	var sig shard.Signal
	good := once{sig: &sig}
	s.AddPoller(spawn(t, s, "good", setter()), &good)
	for !s.Claim() { // the helper may have it for a moment
	}
	p, good.polls, good.flushes = true, 0, nil
	s.Run(bad)
	require.EqualValues(t, 1, s.Stats().Failures)
	require.Equal(t, []int{0}, good.flushes, "it is not polled, and flushed")
	require.NoError(t, s.RunAndWait(t.Context(), &sig, bad), "the shard goes on")
}

// panics is a poller that fails once when it is true.
type panics bool

func (p *panics) Poll(*shard.Shard) int {
	if *p {
		*p = false
		panic("poll")
	}
	return 0
}
func (p *panics) Flush(*shard.Shard) {}
func (p *panics) Arm() bool          { return true }
func (p *panics) FDs() []int         { return nil }

// once sets a signal when it is polled first, and lists how often it had been at each flush.
type once struct {
	sig     *shard.Signal
	polls   int
	flushes []int
}

func (p *once) Poll(*shard.Shard) int {
	if p.polls++; p.polls > 1 {
		return 0
	}
	p.sig.Set()
	return 1
}

func (p *once) Flush(*shard.Shard) { p.flushes = append(p.flushes, p.polls) }
func (p *once) Arm() bool          { return true }
func (p *once) FDs() []int         { return nil }
