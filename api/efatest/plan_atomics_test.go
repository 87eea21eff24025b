package efatest_test

import (
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// cells are unsigned integers in a store that peers update by atomics.
type cells struct {
	at      int
	bits    int      // of one
	typ     amo.Type // if it is an unusual one
	count   int
	counter bool // nothing but sums
	history [][]*happening
	used    int // by how many accesses
}

// maxAtomics bounds the accesses to the cells of a store: the search among their
// orders grows fast.
const maxAtomics = 60

func (c *cells) size() int { return c.bits / 8 }

// cellAccess is an atomic on some of them.
type cellAccess struct {
	form               amo.Form
	op                 amo.Op
	first, count       int
	operand, comparand []uint64
	steps              []*happening
}

func (p *plan) drawCells(d draw, s *store, number int) *cells {
	c := &cells{bits: pick(d, 8, 16, 32, 64, 64), count: 1 + d.IntN(8), counter: d.chance(.4)}
	p.drawUnusual(c, s.host, number)
	c.at = s.size
	if d.chance(.7) {
		c.at = (c.at + 7) &^ 7
	}
	s.size = c.at + c.count*c.size() + 1
	c.history = make([][]*happening, c.count)
	return c
}

// Operations by form. Those that compare take a comparand.
var (
	updates = []amo.Op{
		amo.Min, amo.Max, amo.Sum, amo.Sum, amo.Prod, amo.LOr, amo.LAnd,
		amo.BOr, amo.BAnd, amo.LXor, amo.BXor, amo.Write, amo.Write,
	}
	compares = []amo.Op{
		amo.CompareSwap, amo.CompareSwap, amo.CompareSwap, amo.SwapNE, amo.SwapLE,
		amo.SwapLT, amo.SwapGE, amo.SwapGT, amo.MaskedSwap,
	}
)

func (p *plan) drawAtomic(d draw, a *access) bool {
	x := &cellAccess{form: pick(d, amo.Update, amo.Fetch, amo.Fetch, amo.Compare)}
	load := x.form == amo.Fetch && d.chance(.2)
	need := efa.AccessRemoteRead | efa.AccessRemoteWrite
	switch {
	case load:
		need = efa.AccessRemoteRead
	case x.form == amo.Update:
		need = efa.AccessRemoteWrite
		p.drawLevel(d, a)
	}
	if !p.target(d, a, need) || a.store.cells == nil || a.store.cells.used == maxAtomics {
		return false
	}
	c := a.store.cells
	c.used++
	if c.counter && x.form == amo.Compare {
		x.form = amo.Fetch
		if a.wrong == wrongRight {
			return false
		}
	}
	switch {
	case load:
		x.op = amo.Read
	case x.form == amo.Compare:
		x.op = pick(d, c.does(compares)...)
	case c.counter:
		x.op = amo.Sum
	default:
		x.op = pick(d, c.does(p.updates())...)
	}
	x.first = d.IntN(c.count)
	x.count = 1 + d.IntN(c.count-x.first)
	for range x.count {
		x.operand = append(x.operand, p.drawOperand(d, c))
		x.comparand = append(x.comparand, p.drawOperand(d, c))
	}
	a.cells, a.n, a.off = x, x.count*c.size(), x.first*c.size()
	if x.form == amo.Update && d.chance(.2) && a.timeout == 0 {
		a.style, a.level = injected, 0
	}
	if c.typ != 0 && (a.style == blocking || a.style == injected) { // calls take Go's types
		a.style = posted
	}
	return true
}

// drawOperand draws small numbers often, so that comparisons come out both ways.
func (p *plan) drawOperand(d draw, c *cells) uint64 {
	if d.chance(.8) {
		v := uint64(d.IntN(8))
		if c.half() {
			return c.fit(v)
		}
		return v
	}
	return c.fit(d.Uint64() & (1<<c.modelBits() - 1))
}
