//go:build linux

package shard_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/shard"
)

// doorbell is a poller whose work is announced by a descriptor, or by Wake.
type doorbell struct {
	fd      int
	pending atomic.Int64
	target  atomic.Int64
	polled  int64
	flushed int64
	done    shard.Signal
}

func newDoorbell(t *testing.T) *doorbell {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	require.NoError(t, err)
	return &doorbell{fd: fd}
}

func (d *doorbell) Poll(*shard.Shard) int {
	n := d.pending.Swap(0)
	if n > 0 {
		var b [8]byte
		_, _ = unix.Read(d.fd, b[:]) // empty if it was Wake
	}
	d.polled += n
	return int(n)
}

// Flush publishes: what was polled in this turn is done with.
func (d *doorbell) Flush(*shard.Shard) {
	if d.flushed = d.polled; d.flushed >= d.target.Load() {
		d.done.Set()
	}
}
func (d *doorbell) Arm() bool  { return d.pending.Load() == 0 }
func (d *doorbell) FDs() []int { return []int{d.fd} }

func (d *doorbell) ring(t *testing.T) {
	d.pending.Add(1)
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], 1)
	_, err := unix.Write(d.fd, b[:])
	require.NoError(t, err)
}

// A poller's descriptor wakes a sleeping shard, and so does Wake, with a waiter
// and without.
func TestDescriptorWakes(t *testing.T) {
	eachMode(t, func(t *testing.T, s *shard.Shard, ref shard.Ref) {
		d := newDoorbell(t)
		s.AddPoller(ref, d)
		for i := range 20 {
			d.done.Reset()
			d.target.Store(int64(i + 1))
			got := make(chan error, 1)
			if i%2 == 0 {
				go func() { got <- s.Wait(soon(t), &d.done) }()
			}
			parked(t, s)
			if i%3 == 0 {
				d.pending.Add(1)
				s.Wake()
			} else {
				d.ring(t)
			}
			if i%2 == 0 {
				require.NoError(t, <-got)
			} else {
				ctx := soon(t)
				for !d.done.IsSet() && ctx.Err() == nil {
				}
				require.True(t, d.done.IsSet())
			}
		}
		s.RemovePoller(d)
		require.NoError(t, unix.Close(d.fd))
	})
}

// TestDescriptorReplaced: a poller goes and another comes, whose descriptor has the same number, while a goroutine
// sleeps for the shard.
func TestDescriptorReplaced(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			s := newShard(t, shard.Config{Mode: shard.Manual})
			ref, old, d, ctx := spawn(t, s, "setter", setter()), newDoorbell(t), newDoorbell(t), soon(t)
			d.target.Store(1)
			s.AddPoller(ref, old)
			got := make(chan error, 1)
			if waits {
				go func() { got <- s.Wait(t.Context(), &d.done) }()
			}
			parked(t, s)
			for !s.Adopt() {
			}
			s.RemovePoller(old)
			require.NoError(t, unix.Dup3(d.fd, old.fd, unix.O_CLOEXEC))
			require.NoError(t, unix.Close(d.fd))
			d.fd = old.fd
			s.AddPoller(ref, d)
			s.Release()
			parked(t, s)
			d.ring(t)
			if !waits {
				for !d.done.IsSet() && ctx.Err() == nil {
					runtime.Gosched()
				}
				got <- ctx.Err()
			}
			select {
			case err := <-got:
				require.NoError(t, err)
			case <-ctx.Done():
				t.Fatal("the bell is not heard")
			}
			s.RemovePoller(d)
			require.NoError(t, unix.Close(d.fd))
		})
	}
}
