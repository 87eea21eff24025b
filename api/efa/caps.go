package efa

import (
	"fmt"
	"strings"
)

// Caps are what an endpoint may do; zero means everything. What peers may do to its
// memory is decided by the regions.
type Caps uint32

// The capabilities (FI_MSG and so on). Of CapMsg and CapTagged, and of CapSend and
// CapRecv, both are granted if neither is named.
const (
	CapMsg Caps = 1 << iota
	CapTagged
	CapSend
	CapRecv
	CapDirectedRecv
	CapRMA    // to write and to read peers' memory
	CapAtomic // to update and fetch it by atomics

	allCaps = CapMsg | CapTagged | CapSend | CapRecv | CapDirectedRecv | CapRMA | CapAtomic
)

var capNames = [...]string{"CapMsg", "CapTagged", "CapSend", "CapRecv", "CapDirectedRecv", "CapRMA", "CapAtomic"}

// String names the capabilities, joined by |.
func (c Caps) String() string {
	if c == 0 {
		return "0"
	}
	var names []string
	for i, name := range capNames {
		if bit := Caps(1) << i; c&bit != 0 {
			names = append(names, name)
			c &^= bit
		}
	}
	if c != 0 {
		names = append(names, fmt.Sprintf("%#x", uint32(c)))
	}
	return strings.Join(names, "|")
}

// granted adds what goes without saying.
func (c Caps) granted() Caps {
	if c&(CapMsg|CapTagged) == 0 {
		c |= CapMsg | CapTagged
	}
	if c&(CapSend|CapRecv) == 0 {
		c |= CapSend | CapRecv
	}
	return c
}

// asks gives the capabilities that an operation in direction dir needs.
func asks(dir Caps, tagged, directed bool) Caps {
	if tagged {
		dir |= CapTagged
	} else {
		dir |= CapMsg
	}
	if directed {
		dir |= CapDirectedRecv
	}
	return dir
}
