package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPutEager: PutEager writes what EagerRTM.Append does.
func TestPutEager(t *testing.T) {
	for _, c := range []EagerRTM{
		{MsgID: 7},
		{MsgID: 1<<32 - 1, Tagged: true, Tag: 1<<64 - 2},
		{MsgID: 8, Options: Options{HasConnID: true, ConnID: 0x89abcdef}},
		{MsgID: 9, Tagged: true, Tag: 5, Options: Options{HasConnID: true, ConnID: 3}},
	} {
		var b [EagerRoom]byte
		n := PutEager(&b, c.MsgID, c.Tagged, c.Tag, c.HasConnID, c.ConnID)
		require.Equal(t, c.Append(nil), b[:n])
	}
}
