package tcp

import "github.com/efactor/efactor/actors/device"

// inbox has the posted receive slots and the completions that Poll will report. There
// are never more entries than slots, sends and refusals together, so it needs no bound
// of its own; there are as many deaths as there were peers.
type inbox struct {
	recv   []byte
	stride int
	posted []int32 // ring, len is a power of two
	head   uint32
	tail   uint32
	holder []*remote // by slot: whose packet is in it

	events []device.Completion
	next   int // first that was not polled
	loose  int // refusals among them
	limit  int // of loose
}

func newInbox(slots, depth, stride int, recv []byte) inbox {
	size := 1
	for size < slots {
		size <<= 1
	}
	return inbox{
		recv: recv, stride: stride, posted: make([]int32, size), limit: slots, holder: make([]*remote, slots),
		events: make([]device.Completion, 0, 2*(2*slots+depth)+1),
	}
}

func (b *inbox) post(slots []int32) {
	for _, s := range slots {
		b.empty(s)
		b.posted[b.tail&uint32(len(b.posted)-1)] = s
		b.tail++
	}
}

// take takes a posted slot for a packet of r's; false: there is none for it. Where there
// are others, r has no more slots than three times those that are free.
func (b *inbox) take(r *remote, others bool) (int32, bool) {
	free := b.tail - b.head
	if free == 0 || others && r.slots >= 3*free {
		return 0, false
	}
	s := b.posted[b.head&uint32(len(b.posted)-1)]
	b.head++
	r.slots++
	b.holder[s] = r
	return s, true
}

// empty notes that there is no packet in a slot any more.
func (b *inbox) empty(s int32) {
	if r := b.holder[s]; r != nil {
		r.slots--
		b.holder[s] = nil
	}
}

// giveBack undoes a take: the packet for the slot did not arrive.
func (b *inbox) giveBack(s int32) {
	b.empty(s)
	b.head--
	b.posted[b.head&uint32(len(b.posted)-1)] = s
}

// slot is a slot's memory from byte at.
func (b *inbox) slot(s int32, n int) []byte {
	at := int(s) * b.stride
	return b.recv[at : at+n : at+n]
}

// add makes an entry, empty except for its kind.
func (b *inbox) add(op device.Op) *device.Completion {
	if len(b.events) == cap(b.events) && b.next > 0 {
		n := copy(b.events, b.events[b.next:])
		b.events, b.next = b.events[:n], 0
	}
	b.events = append(b.events, device.Completion{Op: op})
	return &b.events[len(b.events)-1]
}

// arrival makes an entry about a remote queue pair.
func (b *inbox) arrival(op device.Op, from *address) *device.Completion {
	c := b.add(op)
	c.SrcGID, c.SrcQPN = from.gid, from.qpn
	return c
}

// refused reports that a request of from for a region, whose key is or was known here, was refused,
// unless many such reports wait already.
func (b *inbox) refused(from *address, key uint64, known bool) {
	if b.loose < b.limit {
		b.loose++
		c := b.arrival(device.OpRefused, from)
		c.ID, c.Status = key, device.RefusalOf(known)
	}
}

func (b *inbox) polled() bool { return b.next == len(b.events) }

// poll moves entries to c.
func (b *inbox) poll(c []device.Completion) int {
	n := copy(c, b.events[b.next:])
	b.next += n
	if b.loose > 0 {
		for i := range c[:n] {
			if c[i].Op == device.OpRefused {
				b.loose--
			}
		}
	}
	if b.next == len(b.events) {
		b.events, b.next = b.events[:0], 0
	}
	return n
}
