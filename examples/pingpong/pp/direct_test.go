package pp

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDirectSizes: without the protocol every size up to the MTU goes, and the others are
// left out on both sides.
func TestDirectSizes(t *testing.T) {
	cfg := Config{Direct: true, Check: true, Iterations: 5, Warmup: 2, Sizes: sizes(t, "tool")}
	results, errs := match(t, within(t), cfg, cfg)
	require.Equal(t, [2]error{}, errs)
	for _, side := range results {
		require.Len(t, side, 27)
		require.Equal(t, 8192, side[26].Bytes)
	}
	cfg.Sizes = []int{1 << 20}
	_, errs = match(t, within(t), cfg, cfg)
	require.ErrorContains(t, errs[0], "without the protocol a message has 8760 bytes at most")
}

// TestOtherPartner: a partner that speaks something else is the likely reason of what is
// seen, and is named.
func TestOtherPartner(t *testing.T) {
	with, without := Config{Iterations: 5, Sizes: []int{8}}, Config{Iterations: 5, Sizes: []int{8}, Direct: true}
	for name, c := range map[string]struct {
		server, client Config
		protocol       int // the side that speaks the protocol
	}{
		"as server": {with, without, 0},
		"as client": {without, with, 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			_, errs := match(t, ctx, c.server, c.client)
			if c.protocol == 0 { // the other one sends first, and learns no more than that
				require.ErrorContains(t, errs[0], "it may speak efa-direct")
				return
			}
			require.ErrorContains(t, errs[0], "both with -f efa-direct")
		})
	}
}

// TestPrefix: the prefix that some releases of the tool send is recognized.
func TestPrefix(t *testing.T) {
	longer := Config{Iterations: 5, Sizes: []int{8 + prefix}}
	shorter := Config{Iterations: 5, Sizes: []int{8}}
	_, errs := match(t, within(t), shorter, longer)
	require.ErrorContains(t, errs[0], "176 bytes more than the 8 of the message: fi_pingpong of libfabric 2.5 and later")
}
