package freeport

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGet(t *testing.T) {
	port := Get(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NotEqual(t, port, Get(t))
}

// TestKernelGivesNone: ports that the kernel chooses by itself are elsewhere.
func TestKernelGivesNone(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip("needs Linux's /proc:", err)
	}
	var low, high int
	_, err = fmt.Sscan(string(text), &low, &high)
	require.NoError(t, err)
	if low < end {
		t.Skipf("this host gives away ports from %d on, below %d: what Find finds may be taken by others", low, end)
	}
}
