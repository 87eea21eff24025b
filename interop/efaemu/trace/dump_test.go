//go:build linux

package trace

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDump(t *testing.T) {
	for _, c := range []struct {
		bytes   []byte
		symbols []symbol
		want    string
	}{
		{nil, nil, ""},
		{make([]byte, 5), nil, "+5"},
		{[]byte{0, 0, 0, 0, 1}, nil, "00000000 01"},
		{[]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}, nil, "02000000 +8 01000000 +1"},
		{[]byte{1, 2, 3, 4, 5, 6, 7, 8}, []symbol{{4, 2, "x"}, {0, 2, "y"}}, "y 0304 x 0708"},
		{[]byte{1, 2, 3, 4}, []symbol{{0, 2, "x"}, {1, 2, "over the first"}, {3, 2, "beyond the end"}}, "x 0304"},
		{make([]byte, 12), []symbol{{4, 4, "x"}}, "+4 x +4"},
	} {
		require.Equal(t, c.want, dump(c.bytes, c.symbols...))
	}
}

func TestRequest(t *testing.T) {
	require.Equal(t, "r7", request(7, 8))
	require.Equal(t, "r7/0x1", request(15, 8))
	require.Equal(t, "r65535", request(65535, 1<<16))
	require.Equal(t, "r0/0x5", request(5, 1))
}
