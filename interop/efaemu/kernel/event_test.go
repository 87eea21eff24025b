//go:build linux

package kernel

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// reader is a program with an event file; its descriptor doesn't block.
type reader struct {
	Task
	fd int
}

func (r *reader) InstallFD(fd int, _ bool) (n int, err error) {
	r.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return r.fd, errors.Join(err, unix.SetNonblock(r.fd, true))
}

func newReader(t *testing.T) (*eventFile, *reader) {
	t.Helper()
	r := new(reader)
	var told []int
	f, e := newEventFile(r, func(fd int) unix.Errno { told = append(told, fd); return 0 })
	require.Zero(t, e)
	assert.Equal(t, []int{-1, r.fd}, told)
	t.Cleanup(func() {
		f.close()
		_ = unix.Close(r.fd)
	})
	return f, r
}

// next reads an event; false: there is none.
func (r *reader) next(t *testing.T) (uint64, bool) {
	t.Helper()
	var b [8]byte
	n, err := unix.Read(r.fd, b[:])
	if errors.Is(err, unix.EAGAIN) {
		return 0, false
	}
	require.NoError(t, err)
	require.Equal(t, 8, n)
	return binary.LittleEndian.Uint64(b[:]), true
}

// wait reads an event that must come.
func (r *reader) wait(t *testing.T) uint64 {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
	for {
		if n, err := unix.Poll(p, 60_000); !errors.Is(err, unix.EINTR) {
			require.NoError(t, err)
			require.Equal(t, 1, n, "no event came")
			break
		}
	}
	v, ok := r.next(t)
	require.True(t, ok)
	return v
}

func record(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// Many more events than a pipe holds arrive, in order.
func TestEventsBeyondThePipe(t *testing.T) {
	f, r := newReader(t)
	const n = 3 * 64 << 10 / 8
	owner := new(int)
	for i := range uint64(n) {
		f.send(record(i), owner)
	}
	f.mu.Lock()
	assert.NotEmpty(t, f.pending)
	f.mu.Unlock()
	for i := range uint64(n) {
		require.Equal(t, i, r.wait(t))
	}
	_, ok := r.next(t)
	assert.False(t, ok)
	for i := range uint64(10) {
		f.send(record(i), owner)
		require.Equal(t, i, r.wait(t))
	}
}

// A program that has events made and reads none can't have them fill all memory.
func TestEventsBounded(t *testing.T) {
	f, _ := newReader(t)
	for i := range uint64(2 * maxPending) {
		f.send(record(i), nil)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Len(t, f.pending, maxPending)
}

// A queue that goes takes its unread events with it; those of others stay, in order,
// though all look the same to the program.
func TestEventsTakenBack(t *testing.T) {
	for _, n := range []int{1, 10, 20000} { // a pipe holds 8192
		f, r := newReader(t)
		a, b := new(int), new(int)
		for i := range n {
			f.send(record(uint64(i)), a)
			f.send(record(uint64(i)), b)
		}
		assert.Zero(t, r.wait(t), "of a")
		assert.EqualValues(t, n-1, f.takeBack(a))
		assert.Zero(t, f.takeBack(a))
		for i := range n {
			require.EqualValues(t, i, r.wait(t), "of b")
		}
		_, ok := r.next(t)
		assert.False(t, ok)
		f.send(record(77), b)
		assert.EqualValues(t, 1, f.takeBack(b))
		_, ok = r.next(t)
		assert.False(t, ok)
	}
}

// A file that a program has closed takes no events and is noticed.
func TestEventsOfNobody(t *testing.T) {
	f, r := newReader(t)
	assert.False(t, f.unread())
	require.NoError(t, unix.Close(r.fd))
	assert.True(t, f.unread())
	f.send(record(1), f)
	assert.Empty(t, f.pending)
	assert.Zero(t, f.takeBack(f))

	// And while an event waits for room in it.
	f, r = newReader(t)
	for i := range uint64(10000) {
		f.send(record(i), f)
	}
	require.NoError(t, unix.Close(r.fd))
	for done := false; !done; runtime.Gosched() {
		f.mu.Lock()
		done = !f.waiting
		f.mu.Unlock()
	}
	assert.Empty(t, f.pending)
	f.close()
	assert.True(t, f.unread())
	f.send(record(1), f)
	assert.Zero(t, f.takeBack(f))
}

// Closing ends the wait for room.
func TestEventsCloseWhileFull(t *testing.T) {
	f, _ := newReader(t)
	for i := range uint64(10000) {
		f.send(record(i), f)
	}
	f.close()
}

func TestEventFileRefused(t *testing.T) {
	_, e := newEventFile(&reader{}, func(int) unix.Errno { return unix.EFAULT })
	assert.Equal(t, unix.EFAULT, e)
	calls := 0
	r := &reader{}
	_, e = newEventFile(r, func(int) unix.Errno {
		if calls++; calls == 2 {
			return unix.EFAULT
		}
		return 0
	})
	assert.Equal(t, unix.EFAULT, e)
	_ = unix.Close(r.fd)
	_, e = newEventFile(&full{}, func(int) unix.Errno { return 0 })
	assert.Equal(t, unix.EMFILE, e)
}

type full struct{ Task }

func (*full) InstallFD(int, bool) (int, error) { return 0, unix.EMFILE }
