//go:build !amd64 || race || purego

package sys

import "math"

const farMin = math.MaxInt

func copyFar(dst, src []byte) int { return copy(dst, src) }
