//go:build !interleave

package ring

// step marks the places between which another goroutine may act. With the build tag
// interleave a test decides there which goroutine continues; without it step is
// empty.
func step() {}
