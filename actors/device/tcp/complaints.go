package tcp

import (
	"context"
	"log/slog"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// complaints limits what is logged of events that other hosts can cause at will: no more than a few per
// second are written, and the next one says how many were dropped.
type complaints struct {
	log   *slog.Logger
	clock clock.Clock

	since   clock.Time // when the present second began
	written int        // in it
	left    int        // dropped since the last that was written
}

// mostComplaints is how many are written per second.
const mostComplaints = 5

func (c *complaints) warn(msg string, args ...any) { c.say(slog.LevelWarn, msg, args) }

func (c *complaints) info(msg string, args ...any) { c.say(slog.LevelInfo, msg, args) }

func (c *complaints) say(level slog.Level, msg string, args []any) {
	if now := c.clock.Now(); now.Sub(c.since) >= time.Second {
		c.since, c.written = now, 0
	}
	if c.written == mostComplaints {
		c.left++
		return
	}
	c.written++
	if c.left > 0 {
		args = append(args, "more of these or others", c.left)
		c.left = 0
	}
	c.log.Log(context.Background(), level, msg, args...)
}
