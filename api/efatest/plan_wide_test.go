package efatest_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// Cells of types that Go lacks. The model has small numbers, which stand for the cells' contents:
// for floating-point numbers of 16 bits that are exact, and for integers of 128 bits, of which
// each has the number in the middle, so that sums carry from one half to the other.

// wideShift is by how many bits the numbers are shifted to the left in integers of 128 bits.
const wideShift = 60

// drawUnusual has some cells be of these types, where no endpoint is of a release, which would
// choke on them. All other draws are independent of it.
func (p *plan) drawUnusual(c *cells, host, number int) {
	d := draw{rand.New(rand.NewPCG(p.seed, 0x128f+uint64(host<<8+number)))}
	if !d.chance(.25) || slices.ContainsFunc(p.nodes, func(np *nodePlan) bool { return np.era != nil }) {
		return
	}
	c.typ = pick(d, wire.DatatypeInt128, wire.DatatypeUint128, wire.DatatypeFloat16, wire.DatatypeBFloat16)
	c.bits = 8 * c.typ.Size()
}

func (c *cells) wide() bool { return c.bits == 128 }
func (c *cells) half() bool { return c.typ == wire.DatatypeFloat16 || c.typ == wire.DatatypeBFloat16 }

// modelBits is how many bits the model's numbers have.
func (c *cells) modelBits() int {
	if c.typ != 0 {
		return 64
	}
	return c.bits
}

// does leaves out the operations whose results the model's numbers do not stand for.
func (c *cells) does(list []amo.Op) []amo.Op {
	var not []amo.Op
	switch {
	case c.wide():
		not = []amo.Op{amo.Prod, wire.OpDiff, amo.LOr, amo.LAnd, amo.LXor}
	case c.half():
		not = []amo.Op{amo.Prod, wire.OpDiff, amo.BOr, amo.BAnd, amo.BXor, amo.MaskedSwap}
	}
	return slices.DeleteFunc(slices.Clone(list), func(op amo.Op) bool { return slices.Contains(not, op) })
}

// fit makes a number one that no sum of maxAtomics of them overflows.
func (c *cells) fit(v uint64) uint64 {
	switch {
	case c.wide():
		return v >> 24 << (v & 7)
	case c.half():
		return v % 4
	default:
		return v
	}
}

// loadUnusual reads a cell of these types; what stands for no number is one that nobody wrote.
func (c *cells) loadUnusual(b []byte) uint64 {
	le := binary.LittleEndian
	var v uint64
	switch {
	case c.wide():
		lo, hi := le.Uint64(b), le.Uint64(b[8:])
		v = hi<<(64-wideShift) | lo>>wideShift
	case c.typ == wire.DatatypeFloat16:
		v = uint64(amo.Half(le.Uint16(b)).Float16())
	default:
		v = uint64(amo.Half(le.Uint16(b)).BFloat16())
	}
	if !slices.Equal(c.encode([]uint64{v}), b[:c.size()]) {
		return ^uint64(0)
	}
	return v
}

// appendUnusual appends one as it lies in memory.
func (c *cells) appendUnusual(b []byte, v uint64) []byte {
	le := binary.LittleEndian
	switch {
	case c.wide():
		return le.AppendUint64(le.AppendUint64(b, v<<wideShift), v>>(64-wideShift))
	case c.typ == wire.DatatypeFloat16:
		return le.AppendUint16(b, uint16(amo.ToFloat16(float64(v))))
	default:
		return le.AppendUint16(b, uint16(amo.ToBFloat16(float64(v))))
	}
}
