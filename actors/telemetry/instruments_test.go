package telemetry

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLabelsAreBounded: a program that invents names has a bounded number of series.
func TestLabelsAreBounded(t *testing.T) {
	var l labels
	require.Empty(t, l.of(""))
	seen := map[string]bool{}
	for i := range 10 * maxLabels {
		seen[l.of(fmt.Sprint(i))] = true
	}
	require.Len(t, seen, maxLabels+1)
	require.True(t, seen[otherLabel])
	require.Equal(t, "0", l.of("0"), "those that were first keep theirs")
	require.Empty(t, l.of(""))
}

// TestPathsOfOneName: devices of one name are one series, since OpenTelemetry would have two
// values of it.
func TestPathsOfOneName(t *testing.T) {
	one, two := Device{"tcp::0", "tcp"}, Device{"shm:/x", "shm"}
	cfg := Config{Devices: []Device{one, two, one}}
	list := cfg.paths()
	require.Len(t, list, 2)
	require.Equal(t, []int{0, 2}, list[0].paths)
	require.Equal(t, []int{1}, list[1].paths)
	cfg = Config{Device: two}
	require.Equal(t, []int{0}, cfg.paths()[0].paths)
}
