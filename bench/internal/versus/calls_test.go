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

// TestCountCalls: the calls of a thread are counted, or the kernel says that it does not.
func TestCountCalls(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := CountCalls(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	const n = 1000
	for range n {
		_ = unix.Getppid()
	}
	assert.GreaterOrEqual(t, c.Close(), n)
	assert.Zero(t, c.Close(), "again")
}

// TestCompute: a computation takes its time, and no more of the CPU than there was.
func TestCompute(t *testing.T) {
	began := clock.System.Now()
	used := Compute(time.Millisecond)
	took := clock.System.Now().Sub(began)
	assert.GreaterOrEqual(t, took, time.Millisecond)
	assert.Positive(t, used)
	assert.LessOrEqual(t, used, took)
	assert.GreaterOrEqual(t, Switches(os.Getpid()), 0)
	assert.Zero(t, Switches(-1))
}
