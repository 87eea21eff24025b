package versus

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/runtime/clock"
)

// TestCounts: the calls of a thread are counted, but for its naps, or the kernel says that it does not.
func TestCounts(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := Count(os.Getpid())
	if err := c.Calls(); err != nil {
		t.Skip(err)
	}
	const n, naps = 10_000, 100
	for range n {
		_ = unix.Getppid()
	}
	for range naps {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 1}, nil)
	}
	calls, switches := c.Close()
	assert.GreaterOrEqual(t, calls, n)
	assert.GreaterOrEqual(t, switches, 0)
	calls, _ = c.Close()
	assert.Zero(t, calls, "again")
	assert.Zero(t, switchesOf([]int{-1}))
}

// TestCompute: a computation takes its time, and no more of the CPU than there was.
func TestCompute(t *testing.T) {
	began := clock.System.Now()
	used := ComputeCPU(time.Millisecond)
	took := clock.System.Now().Sub(began)
	assert.GreaterOrEqual(t, took, time.Millisecond)
	assert.Positive(t, used)
	assert.LessOrEqual(t, used, took)
}
