package efa

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// TestSwapBytes: what a big-endian host does to elements on their way.
func TestSwapBytes(t *testing.T) {
	for dt, want := range map[amo.Type]string{
		wire.DatatypeInt8:              "abcdefghijklmnopqrstuvwxyz012345",
		wire.DatatypeUint16:            "badcfehgjilknmporqtsvuxwzy103254",
		wire.DatatypeFloat:             "dcbahgfelkjiponmtsrqxwvu10zy5432",
		wire.DatatypeInt64:             "hgfedcbaponmlkjixwvutsrq543210zy",
		wire.DatatypeFloatComplex:      "dcbahgfelkjiponmtsrqxwvu10zy5432",
		wire.DatatypeDoubleComplex:     "hgfedcbaponmlkjixwvutsrq543210zy",
		wire.DatatypeLongDoubleComplex: "ponmlkjihgfedcba543210zyxwvutsrq",
	} {
		p := []byte("abcdefghijklmnopqrstuvwxyz012345")
		swapBytes(p, dt)
		require.Equal(t, want, string(p), dt)
		swapBytes(p, dt)
		require.Equal(t, "abcdefghijklmnopqrstuvwxyz012345", string(p), dt)
	}
	swapBytes([]byte("odd"), wire.DatatypeInt64)
	swapBytes([]byte("none"), amo.Type(99))
}
