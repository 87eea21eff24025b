package libfabric_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// sinceDirect is the first release with efa-direct.
var sinceDirect = release{2, 1, 0}

// needDirect ends a test that a libfabric without efa-direct has no part in.
func needDirect(t *testing.T) {
	t.Helper()
	need(t)
	if lf().before(sinceDirect) {
		t.Skip("this libfabric has no efa-direct")
	}
}

// TestPingpongDirect is TestPingpong without the protocol, of messages up to the MTU.
func TestPingpongDirect(t *testing.T) {
	needDirect(t)
	_, err := buildExample()
	require.NoError(t, err)
	for _, c := range []struct{ server, client player }{{tool, tool}, {tool, example}, {example, tool}, {tool, onCard}, {onCard, tool}, {onCard, onCard}} {
		for _, e := range pingpongEnvironments("msg") {
			t.Run(fmt.Sprintf("%s serves %s, %s", c.server.name, c.client.name, e.title()), func(t *testing.T) {
				pingpong(t, e, direct, c.server, c.client)
			})
		}
	}
}
