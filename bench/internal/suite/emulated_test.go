package suite

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEmulated: the emulator is needed for its own cases alone, which are there with it.
func TestEmulated(t *testing.T) {
	s := Suite{Short: true}
	assert.True(t, s.Emulated(regexp.MustCompile("")))
	assert.True(t, s.Emulated(regexp.MustCompile("cpu/")))
	assert.False(t, s.Emulated(regexp.MustCompile("latency/shm")))
	assert.Empty(t, names(&s, "/efa"))
	s.Emulator = []string{"emulator", "--"}
	assert.Equal(t, []string{"latency/efa/8B", "allocations/efa", "cpu/efa/8B"}, names(&s, "/efa"))
}
