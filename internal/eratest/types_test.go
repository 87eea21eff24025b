package eratest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/wire"
)

// TestUnderstands has the release in which each packet type appeared.
func TestUnderstands(t *testing.T) {
	first := func(typ wire.Type) string {
		for i := range era.All {
			if understands(&era.All[i], typ) {
				return era.All[i].Name
			}
		}
		return ""
	}
	for typ := range 256 {
		want := ""
		switch typ := wire.Type(typ); {
		case !typ.Known():
		case typ >= wire.TypeDCEagerMsgRTM && typ <= wire.TypeDCWriteRTA, typ == wire.TypeReceipt:
			want = "1.12"
		case typ == wire.TypeRuntReadMsgRTM, typ == wire.TypeRuntReadTagRTM:
			want = "1.16"
		case typ == wire.TypeReadNACK:
			want = "1.20"
		case typ == wire.TypePeerError:
			want = "main"
		default:
			want = "1.10"
		}
		require.Equal(t, want, first(wire.Type(typ)), "%v", wire.Type(typ))
		require.Equal(t, want != "", understands(&era.Profile{}, wire.Type(typ)), "%v here", wire.Type(typ))
	}
}
