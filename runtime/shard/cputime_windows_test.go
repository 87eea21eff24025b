package shard_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// cpuTime returns the time that this process has run.
func cpuTime(t *testing.T) time.Duration {
	var began, ended, kernel, user windows.Filetime
	require.NoError(t, windows.GetProcessTimes(windows.CurrentProcess(), &began, &ended, &kernel, &user))
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}
