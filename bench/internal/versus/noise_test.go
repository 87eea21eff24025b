package versus

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWarnings(t *testing.T) {
	quiet := Noise{Cores: 2, Load: 0.1, Lost: 0.001}
	assert.Empty(t, quiet.Warnings(true))
	busy := Noise{Cores: 1, Load: 3, Lost: 0.3}
	assert.Len(t, busy.Warnings(true), 3)
	assert.Len(t, busy.Warnings(false), 2, "the run itself is load")
	assert.Empty(t, Noise{Cores: 2, Load: -1}.Warnings(true), "a load that is unknown is none")
}

func TestListen(t *testing.T) {
	n := Listen(time.Millisecond)
	assert.Positive(t, n.Cores)
	assert.GreaterOrEqual(t, n.Lost, 0.0)
}

// TestCPUTime: both counts grow while the process works.
func TestCPUTime(t *testing.T) {
	own := OwnCPU()
	for OwnCPU() == own { // one of the two may be counted in ticks
	}
	assert.Positive(t, CPUTime(os.Getpid()))
	assert.Zero(t, CPUTime(-1))
}
