//go:build !interleave

package ring

// step marks the places between which another goroutine may act. With the build
// tag interleave a test decides there who goes on; without it nothing remains.
func step() {}
