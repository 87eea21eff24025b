//go:build purego || !(amd64 || arm64)

package endpoint_test

// ordered: without a cheap way to tell the owner of a shard from other goroutines, handlers
// are called at once more seldom, and what different operations do in one step of a
// scenario has another order.
const ordered = false
