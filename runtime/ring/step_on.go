//go:build interleave

package ring

// onStep is the test's.
var onStep = func() {}

func step() { onStep() }
