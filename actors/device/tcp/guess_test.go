//go:build linux

package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestKeysAreLong: the right low half of a key is not enough.
func TestKeysAreLong(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	mr, err := n.d.Alloc(100, device.RemoteRead)
	require.NoError(t, err)
	defer mr.Close()
	f := inside(t, n)
	read := frame{kind: kindRead, length: 1, token: 1, qkey: 5, rkey: mr.RKey() & (1<<32 - 1), addr: mr.Addr()}
	f.frame(read)
	require.Equal(t, device.StatusBadAddress, f.answer().status)
	read.rkey = mr.RKey()
	f.frame(read)
	require.Equal(t, kindData, f.answer().kind)
}
