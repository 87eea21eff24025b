package efanet_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
)

// TestErrorForm: Dial and Listen say "efanet", and are net.OpErrors for those who look.
func TestErrorForm(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for want, call := range map[string]func() error{
		"efanet: dial efa : invalid argument: no address": func() error { _, err := efanet.Dial(t.Context(), ""); return err },
		"efanet: dial efa 127.0.0.1:1: context canceled":  func() error { _, err := efanet.Dial(over, "127.0.0.1:1"); return err },
		"efanet: listen efa shm://x: an endpoint chooses its own address: listen at \"\" or at host:port": func() error {
			_, err := efanet.Listen(t.Context(), "shm://x")
			return err
		},
	} {
		err := call()
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(*net.OpError))
		var n net.Error
		require.ErrorAs(t, err, &n)
		require.False(t, n.Timeout())
	}
	_, err := efanet.Dial(t.Context(), "")
	require.ErrorIs(t, err, efa.ErrInvalid)
	require.ErrorIs(t, err, syscall.EINVAL)
}

// TestBroken: however a transfer ended at the other side, the connection was reset. A call that may not open a device was not.
func TestBroken(t *testing.T) {
	for _, cause := range []error{efa.ErrPeerFailed, efa.ErrPeerAborted, efa.ErrAccess} {
		err := efanet.Broken(&efa.OpError{Op: "recv", Err: cause})
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.ErrorIs(t, err, cause)
	}
	err := efanet.CallError("listen", "", efa.ErrAccess)
	require.ErrorIs(t, err, efa.ErrAccess)
	require.NotErrorIs(t, err, syscall.ECONNRESET)
}
