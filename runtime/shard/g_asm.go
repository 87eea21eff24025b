//go:build (amd64 || arm64) && !purego

package shard

// fastG says that getg is cheap enough to be called for every message.
const fastG = true

// getg returns the address of the calling goroutine's descriptor: a name that
// no other live goroutine has.
func getg() uintptr

// pause is the core's instruction for spin loops.
func pause()
