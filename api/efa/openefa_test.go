package efa_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestOpenCards: a list of cards needs a name for each, and every one of them.
func TestOpenCards(t *testing.T) {
	for _, name := range []string{"efa:+", "efa:a+", "efa:+b", "efa:a++b"} {
		_, err := efa.OpenDevice(name)
		require.Error(t, err, name)
	}
	_, err := efa.OpenDevice("efa:+no-such-card")
	require.ErrorIs(t, err, efa.ErrInvalid)
	require.ErrorContains(t, err, "a card without a name")
	_, err = efa.OpenDevice("efa:no-such-card+nor-this")
	require.Error(t, err)
}
