//go:build (!amd64 && !arm64) || purego

package shard

import (
	"bytes"
	"runtime"
	"strconv"
)

// fastG is false: every message goes through the inbox, as if from elsewhere.
const fastG = false

// getg returns the calling goroutine's number, from its stack trace. It takes
// about a microsecond, so only the rare paths ask.
func getg() uintptr {
	var buf [64]byte
	b := bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine "))
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		b = b[:i]
	}
	id, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		panic("shard: a stack trace without goroutine number")
	}
	return uintptr(id)
}

func pause() {}
