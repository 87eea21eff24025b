//go:build !purego && (amd64 || arm64)

package endpoint_test

// ordered: what different operations do in one step of a scenario has one order.
const ordered = true
