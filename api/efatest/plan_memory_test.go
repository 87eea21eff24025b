package efatest_test

import (
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/model"
)

// store is memory of a host that peers may use: slots, each written by one of them,
// cells for atomics, and between them memory that must not be touched.
type store struct {
	host    int
	access  efa.Access
	allocs  bool // from Alloc, not registered
	size    int
	slots   []*slot
	cells   *cells
	closeAt int // by tasks begun; 0: at the end

	region  *efa.MemoryRegion // nil: the device refused
	key     uint64            // of an export of all of it
	mem     []byte
	closing bool
}

// slot is memory in a store that one endpoint writes.
type slot struct {
	*model.Slot
	store  *store
	writer int
	first  int // contents at the beginning
	at     int
	last   bool // no write may follow: the end of the last one is not reported
}

// Sizes of memory that peers use. Initial contents of slots are numbered from
// firstVersion on, written ones from firstAccess on.
const (
	maxStore     = 1 << 20
	maxGap       = 64
	firstAccess  = 1 << 24
	firstVersion = 1 << 28
)

// drawStores draws the memory of a host: the first store allows everything.
func (p *plan) drawStores(d draw, host int, hp *hostPlan) {
	for i := range 1 + d.IntN(3) {
		s := &store{host: host, access: efa.AccessRemoteRead | efa.AccessRemoteWrite, allocs: d.chance(.5)}
		if i > 0 {
			s.access = pick(d, s.access, efa.AccessRemoteRead, efa.AccessRemoteWrite)
			if p.flavor == fickle && d.chance(.3) || d.chance(.05) {
				s.closeAt = 1 + d.IntN(500)
			}
		}
		s.size = d.IntN(maxGap) + 1
		if d.chance(.7) {
			s.cells = p.drawCells(d, s, i)
		}
		hp.stores = append(hp.stores, s)
	}
}

// room takes n bytes of the store, behind a gap.
func (s *store) room(d draw, n int) int {
	at := s.size + d.IntN(maxGap)
	s.size = at + n + d.IntN(maxGap)
	return at
}

// storeFor draws a store of a host that allows access.
func (p *plan) storeFor(d draw, to int, access efa.Access) *store {
	stores := p.at(to).stores
	for _, i := range d.Perm(len(stores)) {
		if stores[i].access&access == access {
			return stores[i]
		}
	}
	return nil
}

// slotFor draws a slot for from to write, a new one if it has none in the store.
func (p *plan) slotFor(d draw, s *store, from int) *slot {
	var mine []*slot
	for _, x := range s.slots {
		if x.writer == from && !x.last {
			mine = append(mine, x)
		}
	}
	if len(mine) > 0 && (s.size > maxStore || d.chance(.5)) {
		return mine[d.IntN(len(mine))]
	}
	return p.newSlot(d, s, from)
}

func (p *plan) newSlot(d draw, s *store, writer int) *slot {
	n := d.log(1, maxSize)
	if p.fabric.MTU < 4096 {
		n = max(n/8, 1)
	}
	if s.size > maxStore {
		n = 1 + d.IntN(100)
	}
	x := &slot{store: s, writer: writer, first: firstVersion + p.slots, at: s.room(d, n)}
	p.slots++
	x.Slot = model.NewSlot(n, x.first)
	s.slots = append(s.slots, x)
	return x
}
