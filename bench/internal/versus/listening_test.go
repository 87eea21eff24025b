package versus

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestListens(t *testing.T) {
	const list = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2710 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:2711 0100007F:2710 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
`
	assert.True(t, listens(list, 10000))
	assert.False(t, listens(list, 10001), "connected")
	assert.False(t, listens(list, 0x710))
	assert.False(t, listens("", 10000))
}

func TestListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if is, known := Listening(l.Addr().(*net.TCPAddr).Port); known {
		assert.True(t, is)
	}
	require.NoError(t, l.Close())
}
