//go:build interleave

package sys

// OnStep is the scheduler of a test. It is called at each Step and Await, with their arguments, and
// returns when the calling goroutine is to go on.
var OnStep = func(timed bool, ready func() bool) (timeUp bool) { return false }

// Step is a place between two atomic operations, where another goroutine may act.
func Step() { OnStep(false, nil) }

// Await comes before a call that blocks until ready. It reports whether that is to end since its
// time is up; one without a time limit isn't timed.
func Await(timed bool, ready func() bool) (timeUp bool) { return OnStep(timed, ready) }
