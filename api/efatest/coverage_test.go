package efatest_test

import (
	"maps"
	"slices"
	"testing"
)

const (
	defaultSeeds = 50
	replaySeeds  = 3
)

func judgeCoverage(t *testing.T, total map[string]uint64, count int) {
	for _, k := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%10d %s", total[k], k)
	}
}
