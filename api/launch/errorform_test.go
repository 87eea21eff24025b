package launch_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
)

// TestErrorForm: "launch" once, the call, the cause, on one line.
func TestErrorForm(t *testing.T) {
	one := launch.Config{Launcher: "alone"}
	j, err := launch.Join(t.Context(), one)
	require.NoError(t, err)
	none := func(_ []byte, err error) error { return err }
	for says, call := range map[string]func() error{
		"launch: get: no such key": func() error { return none(j.Get(t.Context(), "x")) },
		"launch: put: bad key or":  func() error { return j.Put(t.Context(), "a/b", nil) },
		"launch: join: bad config": func() error { _, err := launch.Join(t.Context(), launch.Config{Rank: 2, Size: 1}); return err },
		"launch: init: open: ": func() error {
			bad := one
			bad.Fabric = efa.Config{DeviceName: "nothing"}
			_, err := bad.Init(t.Context())
			require.ErrorIs(t, err, efa.ErrInvalid)
			return err
		},
		"launch: init: new endpoint: ": func() error {
			bad := one
			bad.Fabric, bad.Endpoint = efa.Config{DeviceName: "sim"}, efa.EndpointConfig{RxDepth: -1, TxDepth: -1}
			_, err := bad.Init(t.Context())
			return err
		},
		"launch: init: context deadline": func() error {
			bad := one
			bad.Fabric = efa.Config{DeviceName: "sim"}
			bad.Prepare = func(*efa.Domain, *efa.EndpointConfig) error { return context.DeadlineExceeded }
			_, err := bad.Init(t.Context())
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return err
		},
	} {
		err := call()
		require.Error(t, err)
		require.True(t, strings.HasPrefix(err.Error(), says), "%s, not %s", err, says)
		require.NotContains(t, err.Error(), "efa: ")
		require.NotContains(t, err.Error(), "\n")
		require.Equal(t, 1, strings.Count(err.Error(), "launch: "))
	}
	require.NoError(t, j.Close())
	require.ErrorContains(t, j.Fence(t.Context()), "launch: fence: the job is closed")
}
