package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSpans is about what is left of a call once the time is taken off in which processes were
// not run.
func TestSpans(t *testing.T) {
	zero := time.Unix(1000, 0)
	s := func(from, to int) span {
		return span{zero.Add(time.Duration(from) * time.Second), zero.Add(time.Duration(to) * time.Second)}
	}
	u := union([]span{s(20, 22), s(1, 3), s(2, 5), s(5, 6), s(10, 12)})
	require.Equal(t, []span{s(1, 6), s(10, 12), s(20, 22)}, u)
	for _, c := range []struct {
		call span
		left int
	}{
		{s(0, 30), 21}, {s(0, 1), 1}, {s(2, 4), 0}, {s(6, 10), 4}, {s(5, 11), 4}, {s(11, 21), 8}, {s(23, 30), 7},
	} {
		require.Equal(t, time.Duration(c.left)*time.Second, c.call.without(u), "%v", c.call)
	}
	require.Equal(t, 4*time.Second, s(1, 5).without(nil))
}

// TestExcuses: an error counts unless a process was paused for long shortly before.
func TestExcuses(t *testing.T) {
	const timeout = 3 * time.Second
	const paused = timeout / 3
	zero := time.Unix(1000, 0)
	at := func(from, d time.Duration) span { return span{zero.Add(from), zero.Add(from + d)} }
	f := fault{span: at(100*time.Second, time.Second)}
	short := []span{at(99*time.Second, paused-1), at(100*time.Second, paused-1)}
	require.False(t, f.excused(short, timeout))
	require.False(t, f.excused([]span{at(80*time.Second, paused), at(101*time.Second, paused)}, timeout), "before and after")
	require.True(t, f.excused(append(short, at(98*time.Second, paused)), timeout))
}
