package efatest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/wire"
)

// access is something that an endpoint does to a peer's memory.
type access struct {
	id       int // its own, and of the contents that it writes
	from, to int
	kind     accessKind
	wrong    wrong
	style    style
	level    efa.Level
	hasData  bool
	data     uint64
	mem      memory
	pieces   int
	pause    time.Duration
	timeout  time.Duration
	fence    bool
	after    earlier

	store  *store
	slot   *slot // of a write or read of something
	off, n int   // in the slot
	cells  *cellAccess

	// Its outcome.
	done      bool // with success
	failed    bool // or it was never begun
	refused   bool
	protocol  efa.Protocol // if known
	told      int          // how often its target heard of it
	heardData uint64       // with which data
	requests  int          // that may be refused
}

type accessKind uint8

const (
	write accessKind = iota
	read
	update
)

// wrong is the reason why an access is refused.
type wrong uint8

const (
	right wrong = iota
	wrongKey
	wrongRange
	wrongRight
	wrongTarget    // the endpoint there is no target of such accesses
	wrongInitiator // nor may the endpoint here begin them
)

// maxWrongs is how many requests of one endpoint another one may have to refuse
// before the peer is failed, with one to spare.
const maxWrongs = 14

func (a *access) String() string {
	return fmt.Sprintf("%s %#x (%d at %d, %d B at %d, level %d, wrong %d)",
		[]string{"write", "read", "atomic"}[a.kind], a.id, a.from, a.to, a.n, a.off, a.level, a.wrong)
}

// drawAccess draws one; nil: there is nothing to do.
func (p *plan) drawAccess(d draw, from, to int) *access {
	a := &access{
		id: firstAccess + len(p.accesses), from: from, to: to,
		style: pick(d, blocking, posted, posted, posted, started), pieces: 1,
	}
	if d.chance(.04) && p.wrongs[[2]int{from, to}] < 3 {
		a.wrong = pick(d, wrongKey, wrongRange, wrongRight)
		p.wrongs[[2]int{from, to}]++
	}
	if d.chance(.1) {
		a.pause = d.upTo(50 * time.Microsecond)
	}
	if p.flavor == fickle && d.chance(.1) {
		a.timeout = d.upTo(100*time.Microsecond) + 1
	}
	ok := false
	switch a.kind = pick(d, write, write, write, write, read, read, read, update, update, update); a.kind {
	case write:
		ok = p.drawWrite(d, a)
	case read:
		ok = p.drawRead(d, a)
	case update:
		ok = p.drawAtomic(d, a)
	}
	if !ok {
		return nil
	}
	return a
}

// target draws the store of an access that needs a right. One that is to be refused
// for want of it gets memory without it.
func (p *plan) target(d draw, a *access, need efa.Access) bool {
	if a.wrong != wrongRight {
		a.store = p.storeFor(d, a.to, need)
		return a.store != nil
	}
	for _, s := range p.at(a.to).stores {
		if s.access&need != need {
			a.store = s
			return true
		}
	}
	return false
}

// drawLevel draws whether a write or update is to be confirmed.
func (p *plan) drawLevel(d draw, a *access) {
	a.level = pick(d, 0, 0, efa.Delivered, efa.Delivered, efa.Delivered)
	if a.level > 0 && !p.both(a.from, a.to, wire.FeatureDeliveryComplete) && !d.chance(.1) {
		a.level = 0 // the peer lacks it
	}
}

func (p *plan) drawWrite(d draw, a *access) bool {
	if !p.target(d, a, efa.AccessRemoteWrite) {
		return false
	}
	p.drawLevel(d, a)
	if a.hasData = d.chance(.3); a.hasData {
		a.data = uint64(a.id)
		if x := d.Uint64(); x>>63 == 0 || p.mismatch(a.from, a.to) { // more than an immediate has room for
			a.data |= x << 32
		}
	}
	a.mem = p.drawMemory(d, a.from, a.to)
	switch {
	case a.wrong != right:
		a.n = d.log(1, bigSize)
	case d.chance(.05): // of nothing
	default:
		a.slot = p.slotFor(d, a.store, a.from)
		a.n = a.slot.Len
	}
	if a.n <= p.fabric.MTU-168 && a.n <= 4096 && d.chance(.15) && a.timeout == 0 {
		a.style, a.level = injected, 0
		if a.mem == doomed {
			a.mem = own
		}
	}
	if a.slot != nil && a.level < efa.Delivered {
		a.slot.last = true
	}
	if d.chance(.1) && a.style != blocking && a.style != injected {
		a.pieces = 2 + d.IntN(3)
	}
	return true
}

func (p *plan) drawRead(d draw, a *access) bool {
	if !p.target(d, a, efa.AccessRemoteRead) {
		return false
	}
	a.mem = p.drawMemory(d, a.from, a.to)
	switch {
	case a.wrong != right:
		a.n = d.log(1, bigSize)
		return true
	case d.chance(.05): // of nothing
		return true
	case len(a.store.slots) == 0 || d.chance(.05):
		a.slot = p.newSlot(d, a.store, a.from)
	default:
		a.slot = a.store.slots[d.IntN(len(a.store.slots))]
	}
	a.n = a.slot.Len
	if d.chance(.4) {
		a.off = d.IntN(a.n)
		a.n = 1 + d.IntN(a.n-a.off)
	}
	if d.chance(.1) && a.style != blocking {
		a.pieces = 2 + d.IntN(3)
	}
	return true
}

// drawRights has an endpoint of some seeds be no target of some accesses, whatever the memory
// allows, and one begin no accesses of some kinds. All other draws are independent of it.
func (p *plan) drawRights() {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x4197))}
	target, initiator := d.IntN(len(p.nodes)), d.IntN(len(p.nodes))
	if d.chance(.3) && !p.takenForGranted() {
		c := d.lacking()
		p.nodes[target].cfg.Target = c
		p.tasks = slices.DeleteFunc(p.tasks, func(t task) bool {
			refused := t.a != nil && t.a.to == target && c&t.a.kind.right() == 0
			switch {
			case !refused:
			case t.a.n == 0: // a request for nothing may be let in
				t.a.failed = true
				return true
			case t.a.wrong == right:
				t.a.wrong = wrongTarget
			}
			return false
		})
	}
	if d.chance(.2) {
		c := d.lacking()
		p.nodes[initiator].cfg.Initiate = c
		for _, a := range p.accesses {
			if a.from == initiator && c&a.kind.right() == 0 {
				a.wrong = wrongInitiator
			}
		}
	}
	if len(p.tasks) == 0 {
		panic("efatest: a seed without tasks")
	}
}

// takenForGranted reports whether a peer may take an endpoint's features for granted, or cannot
// learn that it was refused.
func (p *plan) takenForGranted() bool {
	return slices.ContainsFunc(p.nodes, func(np *nodePlan) bool { return np.cfg.Protocol.Homogeneous || np.knobs().Era != "" })
}

// lacking draws rights without one or two of those to reads, writes and atomics.
func (d draw) lacking() efa.Caps {
	c := efa.CapMessages | efa.CapRead | efa.CapWrite | efa.CapAtomic
	for range 1 + d.IntN(2) {
		c &^= pick(d, efa.CapRead, efa.CapWrite, efa.CapAtomic)
	}
	return c
}

// right is the one that an access takes.
func (k accessKind) right() efa.Caps {
	return [...]efa.Caps{write: efa.CapWrite, read: efa.CapRead, update: efa.CapAtomic}[k]
}
