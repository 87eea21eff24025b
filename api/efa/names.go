package efa

import (
	"fmt"
	"strconv"
	"strings"
)

// What is in logs and error texts; see also Kind, Caps and the types that are aliases.

// String gives the handle as a number, "any" of AnyAddr and "none" of NoAddr.
func (a Addr) String() string {
	switch a {
	case AnyAddr:
		return "any"
	case NoAddr:
		return "none"
	default:
		return strconv.FormatUint(uint64(a), 10)
	}
}

var levelNames = [...]string{"default", "transmitted", "delivered"}

// String gives the name in small letters, "default" of 0.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

var accessNames = []string{"send", "recv", "remote read", "remote write"}

// String lists the rights: "send|remote read"; "none" of 0.
func (a Access) String() string {
	if a == 0 {
		return "none"
	}
	var names []string
	for i, n := range accessNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := a &^ allAccess; rest != 0 {
		names = append(names, fmt.Sprintf("Access(%#x)", uint8(rest)))
	}
	return strings.Join(names, "|")
}

// String is one line: the bytes, the sender, and the tag and the data if there are any. A
// sender that is in no address vector is named by its address.
func (m Message) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d bytes from %s", m.N, m.sender())
	if m.Tagged {
		fmt.Fprintf(&b, ", tag %#x", m.Tag)
	}
	if m.HasData {
		fmt.Fprintf(&b, ", data %#x", m.Data)
	}
	return b.String()
}

// sender is what a message's sender is called.
func (m Message) sender() string {
	switch {
	case m.From < NoAddr:
		return "peer " + m.From.String()
	case m.raw != nil:
		return "stranger " + m.raw.String()
	default:
		return "nobody"
	}
}

// String is one line: what has ended, how, and its message.
func (c Completion) String() string {
	var b strings.Builder
	b.WriteString(c.Kind.String())
	if c.ID != 0 {
		fmt.Fprintf(&b, " (operation %d)", uint64(c.ID))
	}
	if c.Err != nil {
		fmt.Fprintf(&b, ": %v", c.Err)
		return b.String()
	}
	switch c.Kind {
	case Received, RemoteWrite, Peeked:
		b.WriteString(": " + c.Message.String())
	default: // the peer is the one to which it went
		fmt.Fprintf(&b, ": %d bytes", c.N)
		if c.From < NoAddr {
			b.WriteString(", peer " + c.From.String())
		}
	}
	return b.String()
}
