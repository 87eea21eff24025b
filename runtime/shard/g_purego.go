//go:build (!amd64 && !arm64) || purego

package shard

import (
	"runtime"
	"sync"
)

// fastG is false: every message goes through the inbox, as if from another goroutine.
const fastG = false

// traces are buffers for the first line of a stack trace.
var traces = sync.Pool{New: func() any { return new([32]byte) }}

// getg returns the calling goroutine's number, from its stack trace. It takes
// about a microsecond, so only the rare paths call it.
func getg() (id uintptr) {
	const prefix = len("goroutine ")
	b := traces.Get().(*[32]byte)
	defer traces.Put(b)
	for _, c := range b[prefix:max(prefix, runtime.Stack(b[:], false))] {
		if c < '0' || c > '9' {
			break
		}
		id = 10*id + uintptr(c-'0')
	}
	if id == 0 {
		panic("shard: a stack trace without goroutine number")
	}
	return id
}

func pause() {}
