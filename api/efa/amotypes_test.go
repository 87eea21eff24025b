//go:build linux

package efa_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestWideAndHalf: integers of 128 bits and floating-point numbers of 16 in a peer's memory, and
// differences, by requests that name the type.
func TestWideAndHalf(t *testing.T) {
	a, b := lab{}.open(t)
	m := alloc(t, b, 64, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	le := binary.LittleEndian // what this test writes; big-endian hosts would want their own
	if le.Uint16(binary.NativeEndian.AppendUint16(nil, 1)) != 1 {
		t.Fatal("this test is for little-endian hosts")
	}
	wide := func(hi, lo uint64) []byte { return le.AppendUint64(le.AppendUint64(nil, lo), hi) }
	halves := func(vs ...amo.Half) (p []byte) {
		for _, v := range vs {
			p = le.AppendUint16(p, uint16(v))
		}
		return p
	}
	for _, x := range []struct {
		name                            string
		op                              amo.Op
		of                              amo.Type
		there, operand, compare, result []byte
	}{
		{"carry", amo.Sum, amo.Uint128, wide(0, math.MaxUint64), wide(1, 2), nil, wide(2, 1)},
		{"borrow", amo.Diff, amo.Int128, wide(5, 0), wide(1, 1), nil, wide(3, math.MaxUint64)},
		{"product", amo.Prod, amo.Uint128, wide(0, 1<<63), wide(0, 6), nil, wide(3, 0)},
		{"signed", amo.Min, amo.Int128, wide(1, 0), wide(math.MaxUint64, 0), nil, wide(math.MaxUint64, 0)},
		{"unsigned", amo.Min, amo.Uint128, wide(1, 0), wide(math.MaxUint64, 0), nil, wide(1, 0)},
		{"read", amo.Read, amo.Uint128, wide(7, 8), nil, nil, wide(7, 8)},
		{"write", amo.Write, amo.Int128, wide(7, 8), wide(9, 10), nil, wide(9, 10)},
		{"swap", amo.CompareSwap, amo.Uint128, wide(7, 8), wide(1, 1), wide(7, 8), wide(1, 1)},
		{"no swap", amo.CompareSwap, amo.Uint128, wide(7, 8), wide(1, 1), wide(8, 8), wide(7, 8)},
		{
			"sums of float16", amo.Sum, amo.Float16, halves(amo.ToFloat16(1.5), amo.ToFloat16(65504)),
			halves(amo.ToFloat16(2), amo.ToFloat16(32)), nil, halves(amo.ToFloat16(3.5), amo.ToFloat16(math.Inf(1))),
		},
		{
			"products of bfloat16", amo.Prod, amo.BFloat16, halves(amo.ToBFloat16(3), amo.ToBFloat16(-0.5)),
			halves(amo.ToBFloat16(7), amo.ToBFloat16(8)), nil, halves(amo.ToBFloat16(21), amo.ToBFloat16(-4)),
		},
		{
			"maximum and NaN", amo.Max, amo.Float16, halves(amo.ToFloat16(1), amo.ToFloat16(math.NaN()), amo.ToFloat16(1)),
			halves(amo.ToFloat16(2), amo.ToFloat16(1), amo.ToFloat16(math.NaN())), nil,
			halves(amo.ToFloat16(2), amo.ToFloat16(math.NaN()), amo.ToFloat16(1)),
		},
		{"difference", amo.Diff, amo.Uint64, le.AppendUint64(nil, 5), le.AppendUint64(nil, 7), nil, le.AppendUint64(nil, math.MaxUint64-1)},
	} {
		t.Run(x.name, func(t *testing.T) {
			copy(m.Bytes(), x.there)
			got := make([]byte, len(x.there))
			r := &efa.AtomicReq{
				To: a.peer, At: m.Remote(), Op: x.op, Type: x.of, Form: amo.Fetch, Operand: x.operand, Compare: x.compare, Result: got,
			}
			if x.compare != nil {
				r.Form = amo.Compare
			}
			done(t, start(t, a, r))
			require.Equal(t, x.there, got, "what was there")
			require.Equal(t, x.result, m.Bytes()[:len(x.result)])
			most, ok := a.dom.QueryAtomic(x.op, x.of, r.Form)
			require.True(t, ok)
			require.Positive(t, most)
		})
	}
	require.Equal(t, 1.5, amo.ToFloat16(1.5).Float16())
	require.Equal(t, -3.0, amo.ToBFloat16(-3).BFloat16())
	require.Equal(t, "INT128 UINT128 FLOAT16 BFLOAT16 DIFF", amo.Int128.String()+" "+amo.Uint128.String()+" "+
		amo.Float16.String()+" "+amo.BFloat16.String()+" "+amo.Diff.String())
}

// TestConnIDs: endpoints that are opened one after the other, and an endpoint that is enabled
// again, have connids of 31 bits that differ.
func TestConnIDs(t *testing.T) {
	const n = 200
	dom := namedDomain(t, "sim")
	seen := map[uint32]bool{}
	for range n {
		ep, err := dom.NewEndpoint(efa.EndpointConfig{Protocol: efa.ProtocolConfig{SendQueue: 1, RecvQueue: 1}})
		require.NoError(t, err)
		require.NoError(t, ep.Enable(testContext(t)))
		raw, ok := ep.Address().Raw("sim")
		require.True(t, ok)
		require.NoError(t, ep.Close())
		id := raw.ConnID()
		require.NotZero(t, id)
		require.Less(t, id, uint32(1<<31))
		seen[id] = true
	}
	// Of 200 draws from 2^31 two are equal once in 100,000 runs.
	require.GreaterOrEqual(t, len(seen), n-1)
}
