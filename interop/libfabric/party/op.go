package party

import (
	"fmt"

	"github.com/efactor/efactor/wire"
)

// Kind is an operation's kind.
type Kind uint8

// The kinds.
const (
	Send Kind = iota
	Recv
	Write
	Read
	Atomic
	Fetch
	Compare
	Peek    // tagged messages only, as the next three
	Claim   // peek, and take it aside
	Take    // receive what Of claimed
	Discard // peek, and throw it away
)

var kindNames = [...]string{"send", "recv", "write", "read", "atomic", "fetch", "compare", "peek", "claim", "take", "discard"}

// String returns the name.
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// Level is a completion level.
type Level uint8

// The levels, of libfabric; Default asks for nothing.
const (
	Default Level = iota
	Injected
	Transmitted
	Delivered
	Matched
)

// Op is an operation. Fields that do not apply to its kind are ignored.
type Op struct {
	Kind Kind
	// Peer is the other side. A Recv, Peek or Claim takes messages from it alone
	// if Directed is set, and else from all.
	Peer     Peer
	Directed bool

	Tagged      bool
	Tag, Ignore uint64

	Size       int
	Seed       int  // of the data
	Pieces     int  // of the buffer, 0: 1
	Registered bool // the buffer is memory that the device knows
	HasData    bool
	Data       uint64
	Inject     bool
	Level      Level
	Fence      bool // efactor has it

	At           Remote
	RemotePieces int // 0: 1

	Type     wire.Datatype
	AtomicOp wire.AtomicOp
	Count    int
	Operand  []byte
	Compare  []byte

	Of *Pending // of Take
}

// String is for messages.
func (o Op) String() string {
	s := o.Kind.String()
	if o.Tagged {
		s = "tagged " + s
	}
	if o.Level == Delivered {
		s = "delivered " + s
	}
	return fmt.Sprintf("%s of %d bytes", s, o.Size)
}
