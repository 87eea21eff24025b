package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestIDsGoOn: an endpoint that follows another gives no id that the former has given, since the ring
// that it takes over may hold a Cancel of one.
func TestIDsGoOn(t *testing.T) {
	was, to := &Endpoint{lastUnqueued: 7}, &Endpoint{}
	was.closing.e = was
	was.closing.handOver(to)
	require.EqualValues(t, 7, to.lastUnqueued)
}
