package versus

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
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

// TestCompute: the CPU time of a computation is no more than a little above its time.
func TestCompute(t *testing.T) {
	used := Compute(time.Millisecond)
	assert.Positive(t, used)
	assert.LessOrEqual(t, used, 1500*time.Microsecond)
	assert.LessOrEqual(t, Compute(0), time.Millisecond)
	assert.GreaterOrEqual(t, Switches(os.Getpid()), 0)
	assert.Zero(t, Switches(-1))
}
