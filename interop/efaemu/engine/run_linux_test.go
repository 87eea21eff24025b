package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Naps become longer after a while without work, up to a limit, and short again with
// it; while packets are held back they stay short.
func TestNaps(t *testing.T) {
	var i idler
	defer i.begin()()
	i.sleep(false)
	assert.Equal(t, nap, i.long)
	i.naps = patient
	last := i.long
	for range 40 {
		i.sleep(false)
		assert.GreaterOrEqual(t, i.long, last)
		last = i.long
	}
	assert.Equal(t, longNap, last)
	i.reset()
	assert.Equal(t, nap, i.long)
	i.naps = patient
	i.sleep(true)
	assert.Equal(t, nap, i.long)
}
