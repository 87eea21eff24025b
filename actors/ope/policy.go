package ope

import (
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/settings"
)

// Rounding is how a medium message is cut (§3.2; releases differ).
type Rounding = era.Rounding

// The ways to cut.
const (
	RoundDown = era.Down // libfabric 2.x: even parts rounded down, the last takes the rest
	RoundUp   = era.Up   // 1.17: even parts rounded up, the last is the smallest
	Fill      = era.Fill // 1.13: full packets, the last takes the rest
)

// Policy is how operations are sent on one path: the settings in force there. The receiving
// side takes anything.
type Policy = settings.InForce

// align is the alignment of the parts of a medium message in host memory.
const align = 8

// Cut divides total bytes into packets of at most room: parts of size each, the
// last taking what is left. n is their number. total and room are above 0.
func Cut(r Rounding, total, room int) (size, n int) {
	if r == Fill || total <= room {
		return room, (total + room - 1) / room
	}
	parts := (total + room - 1) / room
	size = (total + parts - 1) / parts
	if r == RoundUp {
		size = min((size+align-1)/align*align, room)
		return size, (total + size - 1) / size
	}
	if size -= size % align; size == 0 {
		return room, parts
	}
	n = total / size
	if rest := total - n*size; size+rest > room {
		n++
	}
	return size, n
}
