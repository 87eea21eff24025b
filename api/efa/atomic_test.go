package efa_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// words sees memory as elements.
func words[T efa.Scalar](m *efa.MemoryRegion) []T {
	var x T
	p := m.Bytes()
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(p))), len(p)/int(unsafe.Sizeof(x)))
}

// typed does with elements of one type what there is for all of them.
func typed[T efa.Scalar](t *testing.T, a *side, to efa.Addr, m *efa.MemoryRegion, x, y, z T) {
	ctx, mem := testContext(t), words[T](m)
	cell, cells := efa.NewCell[T](a.ep.Memory(to, m.Remote())), efa.NewCell[T](a.ep.Memory(to, m.Remote()))
	name := fmt.Sprintf("%T", x)
	mem[0], mem[1] = x, y
	was, err := cell.Load(ctx)
	require.NoError(t, err)
	require.Equal(t, x, was, name)
	require.NoError(t, cell.Store(ctx, y, efa.Complete(efa.Delivered)))
	require.Equal(t, y, mem[0], name)
	was, err = cell.Swap(ctx, z)
	require.NoError(t, err)
	require.Equal(t, []T{y, z}, []T{was, mem[0]}, name)
	was, err = cell.FetchAdd(ctx, x)
	require.NoError(t, err)
	require.Equal(t, []T{z, z + x}, []T{was, mem[0]}, name)
	require.NoError(t, cell.Add(ctx, y, efa.Complete(efa.Delivered)))
	require.Equal(t, z+x+y, mem[0], name)
	was, err = cell.CompareSwap(ctx, mem[0], x)
	require.NoError(t, err)
	require.Equal(t, []T{z + x + y, x}, []T{was, mem[0]}, name)
	was, err = cell.CompareSwap(ctx, y, z)
	require.NoError(t, err)
	require.Equal(t, []T{x, x}, []T{was, mem[0]}, name+": is not what was compared with")

	// Several at once, and what is behind them stays.
	mem[0], mem[1], mem[2] = x, y, z
	results := make([]T, 2)
	require.NoError(t, cells.Fetch(ctx, amo.Prod, []T{y, z}, results))
	require.Equal(t, []T{x, y, x * y, y * z, z}, append(results, mem[:3]...), name)
	results = []T{x * y, x}
	require.NoError(t, cells.Compare(ctx, amo.SwapNE, results, []T{z, z}))
	require.Equal(t, []T{x * y, y * z, x * y, z, z}, append(results, mem[:3]...), name)
	require.NoError(t, cells.Update(ctx, amo.Write, []T{y, x}, efa.Complete(efa.Delivered)))
	require.Equal(t, []T{y, x, z}, mem[:3], name)
}

type celsius float64

// TestAtomicTypes: every type, at another endpoint and at itself.
func TestAtomicTypes(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		self, err := a.av.Insert(a.ep.Address())
		require.NoError(t, err)
		for to, s := range map[efa.Addr]*side{a.peer: b, self: a} {
			m := alloc(t, s, 64, remote)
			typed[int8](t, a, to, m, -3, 5, 7)
			typed[uint8](t, a, to, m, 200, 5, 7)
			typed[int16](t, a, to, m, -300, 5, 7)
			typed[uint16](t, a, to, m, 40000, 5, 7)
			typed[int32](t, a, to, m, -1<<20, 3, 7)
			typed[uint32](t, a, to, m, 1<<31, 5, 7)
			typed[int64](t, a, to, m, -1<<40, 5, 7)
			typed[uint64](t, a, to, m, 1<<63, 5, 7)
			typed[float32](t, a, to, m, -1.5, 0.25, 8)
			typed[float64](t, a, to, m, -1.5, 0.25, 1e9)
			typed[celsius](t, a, to, m, -1.5, 0.25, 1e9)
			typed[complex64](t, a, to, m, 1+2i, -3i, 4)
			typed[complex128](t, a, to, m, 1+2i, -3i, 4)
		}
	})
}

// TestQueryAtomic: what it says is what happens, for everything that has a number
// and a little more.
func TestQueryAtomic(t *testing.T) {
	a, b := lab{}.open(t)
	m := alloc(t, b, 64, remote)
	legal, illegal := 0, 0
	for op := range amo.Op(22) {
		for dt := range amo.Type(20) {
			for form := range amo.Compare + 2 {
				what := fmt.Sprintf("%v of %v in form %d", op, dt, form)
				most, ok := a.dom.QueryAtomic(op, dt, form)
				r := &efa.AtomicReq{To: a.peer, At: m.Remote(), Op: op, Type: dt, Form: form, Operand: make([]byte, dt.Size()), Level: efa.Delivered}
				if form > amo.Update {
					r.Result = make([]byte, dt.Size())
				}
				if form == amo.Compare {
					r.Compare = make([]byte, dt.Size())
				}
				o, err := a.ep.Start(r)
				if !ok {
					illegal++
					require.Zero(t, most, what)
					require.ErrorIs(t, err, efa.ErrNotSupported, what)
					continue
				}
				legal++
				require.NoError(t, err, what)
				c := done(t, o)
				require.Equal(t, []any{efa.Updated, dt.Size()}, []any{c.Kind, c.N}, what)
				want := map[amo.Form]string{
					amo.Update: "DC write atomic", amo.Fetch: "fetch atomic", amo.Compare: "compare atomic",
				}[form]
				require.Equal(t, want, c.Protocol.String(), what)
				half := 1
				if form == amo.Compare {
					half = 2
				}
				require.Equal(t, a.dom.Limits().MaxAtomic/dt.Size()/half, most, what)
			}
		}
	}
	require.Greater(t, legal, 300)
	require.Greater(t, illegal, 300)
}

// TestAtomicLimits: the most elements and one more; slices that do not fit each
// other, or the memory.
func TestAtomicLimits(t *testing.T) {
	a, b := lab{}.open(t)
	ctx := testContext(t)
	m := alloc(t, b, 20_000, remote)
	require.Equal(t, 8760-152, a.dom.Limits().MaxAtomic)
	for form, most := range map[amo.Form]int{amo.Update: 1076, amo.Fetch: 1076, amo.Compare: 538} {
		n, ok := a.dom.QueryAtomic(amo.Sum, 7, form)
		if form == amo.Compare {
			n, ok = a.dom.QueryAtomic(amo.CompareSwap, 7, form)
		}
		require.True(t, ok)
		require.Equal(t, most, n)
		for n := most - 1; n <= most+1; n++ {
			x, y, z := make([]uint64, n), make([]uint64, n), make([]uint64, n)
			for i := range x {
				x[i] = uint64(i)
			}
			copy(m.Bytes(), make([]byte, 20_000))
			var err error
			cells := efa.NewCell[uint64](a.ep.Memory(a.peer, m.Remote()))
			switch form {
			case amo.Update:
				err = cells.Update(ctx, amo.Sum, x, efa.Complete(efa.Delivered))
			case amo.Fetch:
				err = cells.Fetch(ctx, amo.Sum, x, z)
			default:
				err = cells.Compare(ctx, amo.CompareSwap, z, x)
			}
			if n > most {
				require.ErrorIs(t, err, efa.ErrMsgSize)
				continue
			}
			require.NoError(t, err)
			require.Equal(t, x, words[uint64](m)[:n])
			require.Zero(t, words[uint64](m)[n])
			require.Equal(t, y, z)
		}
	}
	p := make([]byte, 16)
	for _, r := range []*efa.AtomicReq{
		{Op: amo.Sum, Type: 7, Operand: p[:7]},
		{Op: amo.Sum, Type: 7, Operand: p[:8], Result: p[:8]},
		{Op: amo.Sum, Type: 7, Operand: p[:8], Compare: p[:8]},
		{Op: amo.Sum, Type: 7, Form: amo.Fetch, Operand: p[:8], Result: p},
		{Op: amo.Sum, Type: 7, Form: amo.Fetch, Result: p[:8]},
		{Op: amo.Read, Type: 7, Form: amo.Fetch, Operand: p[:8], Result: p},
		{Op: amo.CompareSwap, Type: 7, Form: amo.Compare, Operand: p[:8], Compare: p, Result: p[:8]},
		{Op: amo.Sum, Type: 7, Operand: p, At: m.Remote().Slice(0, 15)},
	} {
		r.To = a.peer
		if r.At.Len() == 0 {
			r.At = m.Remote()
		}
		require.ErrorIs(t, second(a.ep.Start(r)), efa.ErrInvalid, "%+v", r)
	}
	// Nothing to do is no mistake.
	none := efa.NewCell[int8](a.ep.Memory(a.peer, m.Remote()))
	require.NoError(t, none.Update(ctx, amo.Sum, []int8{}, efa.Complete(efa.Delivered)))
	require.NoError(t, none.Fetch(ctx, amo.Sum, []int8{}, []int8{}))
	require.NoError(t, none.Compare(ctx, amo.CompareSwap, nil, []int8{}))
}

// TestAtomicContention: from many endpoints, by goroutines of both sides, at aligned
// and at odd addresses; each value is fetched once, a lock locks, and the sums are
// right.
func TestAtomicContention(t *testing.T) {
	const workers, each = 4, 200
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		m := alloc(t, b, 64, remote)
		clear(m.Bytes())
		at := m.Remote()
		sum, odd, lock, guarded := at.Slice(0, 8), at.Slice(33, 8), at.Slice(16, 4), at.Slice(24, 8)
		var all sync.WaitGroup
		var mu sync.Mutex
		seen := map[int64]bool{}
		var failed atomic.Pointer[error]
		fail := func(err error) {
			if err != nil {
				failed.Store(&err)
			}
		}
		for range workers {
			s := newEndpoint(t, a.dom, efa.EndpointConfig{})
			to, err := s.av.Insert(b.ep.Address())
			require.NoError(t, err)
			all.Go(func() {
				for range each {
					was, err := efa.NewCell[int64](s.ep.Memory(to, sum)).FetchAdd(ctx, int64(1))
					fail(err)
					mu.Lock()
					seen[was] = true
					mu.Unlock()
					fail(efa.NewCell[uint64](s.ep.Memory(to, odd)).Add(ctx, uint64(3), efa.Complete(efa.Delivered)))
				}
				for range each / 10 {
					for was := int32(1); was != 0 && failed.Load() == nil; {
						was, err = efa.NewCell[int32](s.ep.Memory(to, lock)).CompareSwap(ctx, int32(0), 1)
						fail(err)
					}
					v, err := efa.NewCell[uint64](s.ep.Memory(to, guarded)).Load(ctx)
					fail(err)
					fail(efa.NewCell[uint64](s.ep.Memory(to, guarded)).Store(ctx, v+1))
					fail(efa.NewCell[int32](s.ep.Memory(to, lock)).Store(ctx, int32(0)))
				}
			})
		}
		word := &words[int64](m)[0]
		for range each {
			atomic.AddInt64(word, 1_000_000) // as any Go code may
		}
		all.Wait()
		if err := failed.Load(); err != nil {
			t.Fatal(*err)
		}
		final := func(at efa.Remote) uint64 {
			v, err := efa.NewCell[uint64](a.ep.Memory(a.peer, at)).Load(ctx)
			require.NoError(t, err)
			return v
		}
		require.EqualValues(t, each*1_000_000+workers*each, final(sum))
		require.Len(t, seen, workers*each, "each value is fetched once")
		require.EqualValues(t, 3*workers*each, final(odd))
		require.EqualValues(t, workers*each/10, final(guarded))
	})
}

// TestAtomicOrder: an atomic and a message arrive in the order of the calls.
func TestAtomicOrder(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		m := alloc(t, b, 8, remote)
		clear(m.Bytes())
		for i := range int64(200) {
			require.NoError(t, efa.NewCell[int64](a.ep.Memory(a.peer, m.Remote())).Add(ctx, int64(1), efa.Inject))
			require.NoError(t, a.ep.Send(ctx, a.peer, nil, efa.Inject))
			require.NoError(t, second(b.ep.Recv(ctx, nil)))
			require.GreaterOrEqual(t, atomic.LoadInt64(&words[int64](m)[0]), i+1)
		}
	})
}
