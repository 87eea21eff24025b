//go:build linux

package libfabric_test

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

// atomicCase is an operation on elements of a type, and its result.
type atomicCase struct {
	typ                    wire.Datatype
	op                     wire.AtomicOp
	target, operand, after []byte
	compare                []byte // of those that compare
	fetchOnly              bool
}

// elements are numbers as they are in memory.
func elements(values any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, values); err != nil {
		panic(err)
	}
	return b.Bytes()
}

var atomicCases = []atomicCase{
	{typ: wire.DatatypeUint64, op: wire.OpSum, target: elements([]uint64{1, 1 << 63}), operand: elements([]uint64{41, 1 << 63}), after: elements([]uint64{42, 0})},
	{typ: wire.DatatypeInt32, op: wire.OpSum, target: elements([]int32{1000, -5, 0}), operand: elements([]int32{7, -6, 1}), after: elements([]int32{1007, -11, 1})},
	{typ: wire.DatatypeInt64, op: wire.OpMin, target: elements([]int64{-3, 5}), operand: elements([]int64{2, -9}), after: elements([]int64{-3, -9})},
	{typ: wire.DatatypeUint32, op: wire.OpMax, target: elements([]uint32{3, 1 << 31}), operand: elements([]uint32{1 << 31, 5}), after: elements([]uint32{1 << 31, 1 << 31})},
	{typ: wire.DatatypeDouble, op: wire.OpProd, target: elements([]float64{1.5, -2}), operand: elements([]float64{4, 0.25}), after: elements([]float64{6, -0.5})},
	{typ: wire.DatatypeFloat, op: wire.OpMax, target: elements([]float32{1.5, math.MaxFloat32}), operand: elements([]float32{-7, 3}), after: elements([]float32{1.5, math.MaxFloat32})},
	{typ: wire.DatatypeUint8, op: wire.OpBOr, target: []byte{0x0f, 0x80, 0}, operand: []byte{0xf0, 1, 0}, after: []byte{0xff, 0x81, 0}},
	{typ: wire.DatatypeUint16, op: wire.OpBAnd, target: elements([]uint16{0xffff, 0x1234}), operand: elements([]uint16{0x0ff0, 0xff00}), after: elements([]uint16{0x0ff0, 0x1200})},
	{typ: wire.DatatypeInt8, op: wire.OpBXor, target: []byte{0x55, 0xff}, operand: []byte{0xff, 0xff}, after: []byte{0xaa, 0}},
	{typ: wire.DatatypeInt16, op: wire.OpLAnd, target: elements([]int16{7, 0, 3}), operand: elements([]int16{-1, 2, 0}), after: elements([]int16{1, 0, 0})},
	{typ: wire.DatatypeUint32, op: wire.OpLOr, target: elements([]uint32{0, 9, 0}), operand: elements([]uint32{0, 0, 8}), after: elements([]uint32{0, 1, 1})},
	{typ: wire.DatatypeInt64, op: wire.OpLXor, target: elements([]int64{0, 9, 3}), operand: elements([]int64{4, 0, 8}), after: elements([]int64{1, 1, 0})},
	{typ: wire.DatatypeUint64, op: wire.OpWrite, target: elements([]uint64{1}), operand: elements([]uint64{1 << 40}), after: elements([]uint64{1 << 40})},
	{typ: wire.DatatypeUint64, op: wire.OpRead, target: elements([]uint64{7, 1 << 60}), operand: elements([]uint64{1, 2}), after: elements([]uint64{7, 1 << 60}), fetchOnly: true},
	{typ: wire.DatatypeUint64, op: wire.OpSum, target: make([]byte, 4000), operand: bytes.Repeat([]byte{1}, 4000), after: bytes.Repeat([]byte{1}, 4000)},
}

var compareCases = []atomicCase{
	{typ: wire.DatatypeUint64, op: wire.OpCSwap, target: elements([]uint64{5, 6}), compare: elements([]uint64{5, 5}), operand: elements([]uint64{9, 9}), after: elements([]uint64{9, 6})},
	{typ: wire.DatatypeInt32, op: wire.OpCSwapNE, target: elements([]int32{5, 6}), compare: elements([]int32{5, 5}), operand: elements([]int32{9, 9}), after: elements([]int32{5, 9})},
	{typ: wire.DatatypeUint16, op: wire.OpMSwap, target: elements([]uint16{0xabcd}), compare: elements([]uint16{0x0ff0}), operand: elements([]uint16{0x1234}), after: elements([]uint16{0xa23d})},
	{typ: wire.DatatypeDouble, op: wire.OpCSwap, target: elements([]float64{0.5, 2}), compare: elements([]float64{0.5, 3}), operand: elements([]float64{8, 8}), after: elements([]float64{8, 2})},
}

var complexCases = []atomicCase{
	{typ: wire.DatatypeDoubleComplex, op: wire.OpProd, target: elements([]float64{1, 2}), operand: elements([]float64{3, -1}), after: elements([]float64{5, 5})},
	{typ: wire.DatatypeFloatComplex, op: wire.OpSum, target: elements([]float32{1, 2}), operand: elements([]float32{3, -1}), after: elements([]float32{4, 1})},
}

var complexCompareCases = []atomicCase{
	{typ: wire.DatatypeDoubleComplex, op: wire.OpCSwap, target: elements([]float64{1, 2}), compare: elements([]float64{1, 2}), operand: elements([]float64{3, 4}), after: elements([]float64{3, 4})},
}

// orderedCases: op compares the comparand with the target, in that order.
var orderedCases = []atomicCase{
	{typ: wire.DatatypeInt64, op: wire.OpCSwapLE, target: elements([]int64{5, 5, 5}), compare: elements([]int64{4, 5, 6}), operand: elements([]int64{9, 9, 9}), after: elements([]int64{9, 9, 5})},
	{typ: wire.DatatypeInt64, op: wire.OpCSwapLT, target: elements([]int64{5, 5, 5}), compare: elements([]int64{4, 5, 6}), operand: elements([]int64{9, 9, 9}), after: elements([]int64{9, 5, 5})},
	{typ: wire.DatatypeFloat, op: wire.OpCSwapGE, target: elements([]float32{5, 5, 5}), compare: elements([]float32{4, 5, 6}), operand: elements([]float32{9, 9, 9}), after: elements([]float32{5, 9, 9})},
	{typ: wire.DatatypeUint8, op: wire.OpCSwapGT, target: []byte{5, 5, 5}, compare: []byte{4, 5, 6}, operand: []byte{9, 9, 9}, after: []byte{5, 5, 9}},
}

// atomicScenarios are the forms of atomics, each with every case.
func atomicScenarios() []scenario {
	all := append(append([]atomicCase{}, compareCases...), orderedCases...)
	return []scenario{
		{
			name: "write atomic", proves: []string{"write atomic"}, where: everywhere, from: []wire.Type{wire.TypeWriteRTA},
			play: func(p *play) { p.atomics(party.Op{Kind: party.Atomic}, atomicCases) },
		},
		{
			name: "write atomic, injected", proves: []string{"write atomic", "inject"}, where: everywhere,
			from: []wire.Type{wire.TypeWriteRTA},
			play: func(p *play) { p.atomics(party.Op{Kind: party.Atomic, Inject: true}, atomicCases[:3]) },
		},
		{
			name: "DC write atomic", proves: []string{"DC write atomic"}, where: everywhere,
			from: []wire.Type{wire.TypeDCWriteRTA}, back: []wire.Type{wire.TypeReceipt},
			play: func(p *play) { p.atomics(party.Op{Kind: party.Atomic, Level: party.Delivered}, atomicCases) },
		},
		{
			name: "fetch atomic", proves: []string{"fetch atomic"}, where: everywhere,
			from: []wire.Type{wire.TypeFetchRTA}, back: []wire.Type{wire.TypeATOMRSP},
			play: func(p *play) { p.atomics(party.Op{Kind: party.Fetch}, atomicCases) },
		},
		{
			name: "fetch atomic, registered", proves: []string{"fetch atomic", "registered buffers"}, where: everywhere,
			from: []wire.Type{wire.TypeFetchRTA}, back: []wire.Type{wire.TypeATOMRSP},
			play: func(p *play) { p.atomics(party.Op{Kind: party.Fetch, Registered: true}, atomicCases) },
		},
		{
			name: "compare atomic", proves: []string{"compare atomic"}, where: everywhere,
			from: []wire.Type{wire.TypeCompareRTA}, back: []wire.Type{wire.TypeATOMRSP},
			play: func(p *play) { p.atomics(party.Op{Kind: party.Compare}, all) },
		},
		{
			name: "complex atomics", where: everywhere, from: []wire.Type{wire.TypeWriteRTA, wire.TypeCompareRTA},
			gaps: []gap{{begins: libfabricBegins, why: "libfabric crashes when it is to carry out an atomic on complex numbers"}},
			play: func(p *play) {
				p.atomics(party.Op{Kind: party.Atomic}, complexCases)
				p.atomics(party.Op{Kind: party.Fetch}, complexCases)
				p.atomics(party.Op{Kind: party.Compare}, complexCompareCases)
			},
		},
	}
}

// atomics has a operate on memory of b, in each case.
func (p *play) atomics(op party.Op, cases []atomicCase) {
	mem, _ := p.region(p.b, 8192, party.AccessRemoteRead|party.AccessRemoteWrite)
	for _, c := range cases {
		if c.fetchOnly && op.Kind == party.Atomic {
			continue
		}
		require.NoError(p, mem.Clear(p.ctx))
		require.NoError(p, mem.Set(p.ctx, margin, c.target))
		op.Peer, op.At, op.Size = p.toB, mem.Remote().Slice(margin, len(c.target)), len(c.target)
		op.Type, op.AtomicOp, op.Operand, op.Compare = c.typ, c.op, c.operand, c.compare
		op.Count = len(c.target) / c.typ.Size()
		out := p.done(p.start(p.a, op))
		if op.Kind != party.Atomic {
			require.Equal(p, c.target, out.Result, "%v %v: what was there", c.typ, c.op)
			require.Equal(p, -1, out.Content.Over)
		} else if op.Level != party.Delivered {
			p.mark() // atomics and messages have an order
		}
		got, err := mem.Get(p.ctx, margin, len(c.target))
		require.NoError(p, err)
		require.Equal(p, c.after, got, "%v %v", c.typ, c.op)
		for _, off := range []int{0, margin + len(c.target)} {
			beside, err := mem.Check(p.ctx, off, margin)
			require.NoError(p, err)
			require.True(p, beside.Untouched, "%v %v: memory beside", c.typ, c.op)
		}
	}
}
