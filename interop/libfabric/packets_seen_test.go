//go:build linux

package libfabric_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// packetList reads testdata/packets.txt: the types, with the reason of those that are
// not to be seen.
func packetList(t *testing.T) map[string]string {
	text, err := os.ReadFile(filepath.Join("testdata", "packets.txt"))
	require.NoError(t, err)
	list := map[string]string{}
	for l := range strings.Lines(string(text)) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		name, why, _ := strings.Cut(l, " - ")
		require.NotContains(t, list, name)
		list[name] = why
	}
	return list
}

// unnamed begins what types without a name are called.
const unnamed = "TYPE_"

// named are the packet types that have a name.
func named() (types []wire.Type) {
	for i := range 256 {
		if k := wire.Type(i); !strings.HasPrefix(k.String(), unnamed) {
			types = append(types, k)
		}
	}
	return types
}

// TestPacketList: the list has every type.
func TestPacketList(t *testing.T) {
	list := packetList(t)
	for _, k := range named() {
		assert.Contains(t, list, k.String())
	}
	assert.Len(t, list, len(named()))
}

// checkPackets has each type of the list seen from both sides, and no other.
func checkPackets(t *testing.T, seen counts) {
	list := packetList(t)
	for _, k := range named() {
		for who, ours := range map[string]bool{"efactor": true, "libfabric": false} {
			n, why := seen[sent{ours, k}], list[k.String()]
			if since, ok := strings.CutPrefix(why, "since "); ok && !lf().before(releaseOf(since)) {
				why = ""
			}
			if why == "" {
				assert.NotZero(t, n, "%v from %s, in a scenario that passed", k, who)
			} else {
				assert.Zero(t, n, "%v from %s: %s", k, who, why)
			}
		}
	}
}
