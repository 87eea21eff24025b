package endpoint

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// TestPlacesAreRemembered: a place at which many endpoints come and go does not have the connids of other
// places forgotten.
func TestPlacesAreRemembered(t *testing.T) {
	var r routes
	visit := func(ah device.AH, connid uint32) {
		gid := device.GID{1, byte(ah)}
		l := &peer.Link{Addr: wire.MakeRawAddr(gid, 7, connid), AH: ah, QPN: 7, QKey: connid}
		r.set(l)
		require.True(t, r.drop(l))
	}
	visit(1, 0x100)
	for id := range uint32(maxEmpty + 1) {
		visit(2, id)
	}
	require.True(t, r.get(1, 7).isFormer(0x100))
	require.LessOrEqual(t, len(r.get(2, 7).former), maxFormer)
}
