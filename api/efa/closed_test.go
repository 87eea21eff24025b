package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// closed gives a device that closes with the test.
func closed(t *testing.T) func(efa.Device, error) efa.Device {
	return func(d efa.Device, err error) efa.Device {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
}
