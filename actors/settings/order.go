package settings

import "strings"

// Order is a set of orders among the operations of one endpoint with one peer, which hold
// beside those that always do: messages after messages, and atomics after messages and after
// atomics. The values are combined by |. Each costs the later operation the wait for the
// earlier one, and so do all operations to that peer that come after it.
type Order uint16

// The orders. An atomic that was asked for is a write and a read.
const (
	// SendAfterWrite: a message is seen after the bytes of earlier writes (FI_ORDER_SAW).
	SendAfterWrite Order = 1 << iota
	// SendAfterRead: a message goes out after earlier reads have their data (FI_ORDER_SAR).
	SendAfterRead
	// WriteAfterSend: a write begins when earlier messages are complete at their level
	// (FI_ORDER_WAS).
	WriteAfterSend
	// WriteAfterWrite: writes land in order, all bytes of each (FI_ORDER_WAW).
	WriteAfterWrite
	// WriteAfterRead: a read does not see later writes (FI_ORDER_WAR).
	WriteAfterRead
	// ReadAfterSend: a read begins when earlier messages are complete at their level
	// (FI_ORDER_RAS).
	ReadAfterSend
	// ReadAfterWrite: a read sees earlier writes (FI_ORDER_RAW).
	ReadAfterWrite
	// ReadAfterRead: reads take place in order (FI_ORDER_RAR).
	ReadAfterRead

	AllOrders Order = 1<<iota - 1
)

var orderNames = [...]string{
	"SendAfterWrite", "SendAfterRead", "WriteAfterSend", "WriteAfterWrite", "WriteAfterRead",
	"ReadAfterSend", "ReadAfterWrite", "ReadAfterRead",
}

// String lists the names, combined by |.
func (o Order) String() string {
	var names []string
	for i, n := range orderNames {
		if o&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "0"
	}
	return strings.Join(names, "|")
}

// Kinds is a set of kinds of operation, as far as orders tell them apart.
type Kinds uint8

// The kinds.
const (
	Sends Kinds = 1 << iota
	Writes
	Reads
	Atomics
)

// Before returns the kinds of which all earlier operations must be over before one of kind k
// begins. The order of messages, in which atomics take part, is the protocol's (§3.2), and
// nobody waits for it here.
func (o Order) Before(k Kinds) (before Kinds) {
	add := func(which Order, earlier Kinds) {
		if o&which != 0 {
			before |= earlier
		}
	}
	switch k {
	case Sends:
		add(SendAfterWrite, Writes)
		add(SendAfterRead, Reads)
	case Writes:
		add(WriteAfterSend, Sends)
		add(WriteAfterWrite, Writes|Atomics)
		add(WriteAfterRead, Reads|Atomics)
	case Reads:
		add(ReadAfterSend, Sends)
		add(ReadAfterWrite, Writes|Atomics)
		add(ReadAfterRead, Reads|Atomics)
	case Atomics:
		add(WriteAfterWrite|ReadAfterWrite, Writes)
		add(WriteAfterRead|ReadAfterRead, Reads)
	}
	return before
}
