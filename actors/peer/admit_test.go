package peer

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTurnAgain: a message for a former operation is not taken for one about the next, also
// if the turn was cleared in between.
func TestTurnAgain(t *testing.T) {
	var a Turn
	a.Ask(true, false)
	former := a.use
	a = a.Again()
	require.False(t, a.NoID)
	a.Ask(true, false)
	require.NotEqual(t, former, a.use)
}
