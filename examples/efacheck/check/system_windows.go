package check

import (
	"errors"
	"time"
)

// kernel returns a question mark: no card has a driver here, so that no report asks.
func kernel() string { return "?" }

// readable fails: there are no cards here, and so no descriptors of theirs.
func readable([]int, time.Duration) (int, error) { return 0, errors.ErrUnsupported }
