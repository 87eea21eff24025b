//go:build !interleave

package sys

// Step marks a place between two atomic operations, where another goroutine may act. With the
// build tag interleave a test decides there which goroutine goes on; without it Step is empty.
func Step() {}

// Await marks a call that blocks until ready, in the same way. Without the tag it is empty.
func Await(bool, func() bool) (timeUp bool) { return false }
