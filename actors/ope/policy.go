package ope

// Rounding is how a medium message is cut (§3.2; releases differ).
type Rounding uint8

// The ways to cut.
const (
	RoundDown Rounding = iota // libfabric 2.x: even parts rounded down, the last takes the rest
	RoundUp                   // 1.17: even parts rounded up, the last is the smallest
	Fill                      // 1.13: full packets, the last takes the rest
)

// Policy is how messages are sent; the receiving side takes anything. Its zero
// value means libfabric 2.3.1's defaults.
type Policy struct {
	MaxMedium int // bytes; longer messages use long-CTS (65536; negative: no medium)
	Credits   int // packets in a CTS window that we grant, and ask for (32)
	Rounding  Rounding
}

// WithDefaults fills in what is zero.
func (p Policy) WithDefaults() Policy {
	if p.MaxMedium == 0 {
		p.MaxMedium = 65536
	}
	if p.Credits == 0 {
		p.Credits = 32
	}
	return p
}

// Proto is the subprotocol that carries a message (Table 1.1).
type Proto uint8

// The subprotocols for messages.
const (
	ProtoNone Proto = iota
	Eager
	Medium
	LongCTS
	numProtos
)

// String gives the name of Table 1.1.
func (p Proto) String() string {
	switch p {
	case Eager:
		return "eager"
	case Medium:
		return "medium"
	case LongCTS:
		return "long-CTS"
	default:
		return "-"
	}
}

// align is the alignment of the parts of a medium message in host memory.
const align = 8

// Cut divides total bytes into packets of at most room: parts of size each, the
// last taking what is left. n is their number. total and room are above 0.
func (r Rounding) Cut(total, room int) (size, n int) {
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
