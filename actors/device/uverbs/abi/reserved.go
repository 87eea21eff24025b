package abi

import "strings"

// WQEReserved is the set of parts of a WQE that are not 0 though they should be.
type WQEReserved uint8

// The parts.
const (
	ReservedCtrl1 WQEReserved = 1 << iota // byte 2
	ReservedCtrl2                         // byte 3
	ReservedCtrl3                         // byte 14, without the hint
	ReservedMeta                          // the bytes 15 and 20 to 25
	ReservedImm                           // immediate data of a request that has none
	ReservedLKey                          // of an SGE, above its 24 bits
	ReservedBody                          // what the body leaves unused
)

var reservedNames = [...]string{"ctrl1", "ctrl2", "ctrl3", "meta", "immediate", "lkey", "body"}

func (r *WQEReserved) set(on bool, part WQEReserved) {
	if on {
		*r |= part
	}
}

// String names the parts.
func (r WQEReserved) String() string {
	var names []string
	for i, name := range reservedNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
